// What a comparison of two runs looks like: a table, or a page for a browser.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reports/compare.hpp"
#include "reports/table.hpp"
#include "reports/varying_attributes.hpp"

namespace opbound {

/// The checks that one line of a table stands for.
struct CompareRow {
  std::vector<const ComparedCheck*> checks;
  ChangeCounts counts;
  std::uint64_t same_bits = 0;
  /// Of the checks with the row's change, the one whose largest error changed by the largest
  /// factor.
  const ComparedCheck* shown = nullptr;

  /// The worst of those that both runs carried out, else what most of them are.
  Change change() const;
  /// Not all of its checks have the same bits or were skipped.
  bool is_changed() const;
};

/// A row for each op, direction, precision, provider and device, or with `all` for each check: what
/// is broken or worse stands first, then all in the order of their first check.
std::vector<CompareRow> rows_of(const Comparison& comparison, bool all);

struct CompareOptions {
  TableOptions table;         ///< its `all`: a row for every check
  bool only_changed = false;  ///< no rows without a change; how many there were is said
};

/// What differs between the runs, the rows, the last line. CSV has a row for every check, and
/// nothing else; its numbers are in full.
std::string compare_table(const Comparison& comparison, const CompareOptions& options);

/// A page that stands alone: old against new errors as a plot, every row with its histograms of
/// errors.
std::string compare_page(const Comparison& comparison);

/// "contract broken 1, worse 2, better 0, same error 3, same bits 406; only in old 0, only in new
/// 0, skipped 12"
std::string last_line(const Comparison& comparison);

namespace detail {
/// "0.50 -> 0.71", "0.50", or "1.46 (+2.2e-16)" where two numbers look alike and are not.
std::string change_text(const std::optional<double>& before, const std::optional<double>& after,
                        std::string_view arrow);
/// The same of a record's number; a check that one run lacks shows that of the other alone.
std::string number_text(const ComparedCheck& check, std::optional<double> Record::*number,
                        std::string_view arrow);
/// "within", "within -> exceeds"; an allowed one has a star.
std::string verdict_change(const ComparedCheck& check, std::string_view arrow);
/// "y erfc 64x1000 normal": the check within its row.
std::string place_text(const Record& record, const std::string& attributes, std::string_view times);
/// The page without its head and end, for another page that has these styles; its parts have
/// headings of this level, "h2".
std::string compare_body(const Comparison& comparison, std::string_view heading);
std::string_view compare_style();
/// Which attributes tell the checks of an op apart.
VaryingAttributes attributes_of(const Comparison& comparison);
}  // namespace detail

}  // namespace opbound
