// Which records a page lists one by one, and where: what is linked to has to be there.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "reports/report/inputs.hpp"

namespace opbound::report {

/// Above so many records a page has only those that make the run fail and the worst of each row.
inline constexpr std::size_t most_listed = 20000;
/// Above so many rows paper has those that make the run fail, and of each output, direction,
/// precision, provider and device the worst: a browser takes 5 ms to print a row.
inline constexpr std::size_t most_rows_on_paper = 1000;

/// Records that differ only in case, attributes and place: a row of the error table.
struct RecordRow {
  std::vector<const Record*> records;
  const Record* worst = nullptr;  ///< by standing, then ratio, then error
  std::uint64_t checked = 0;      ///< elements of all
};

class RecordList {
 public:
  /// The inputs outlive it. For paper no record stands alone: only rows do.
  RecordList(const Inputs& inputs, bool is_for_paper);

  /// By op, in the order of their first record; rows that make the run fail first.
  const std::vector<std::pair<std::string, std::vector<RecordRow>>>& ops() const { return ops_; }
  std::size_t count() const { return places_.size(); }
  bool is_whole() const { return count() <= most_listed; }
  bool is_for_paper() const { return is_for_paper_; }
  bool is_listed(const Record& r) const { return places_.at(&r).is_listed; }
  std::string anchor(const Record& r) const { return is_for_paper_ ? "" : places_.at(&r).anchor; }
  /// A link to the record, where it is listed, else its words alone. HTML.
  std::string link(const Record& r, const std::string& text) const;
  /// "gelu y forward bf16:fp32:bf16 erfc 65536 every_pattern"
  static std::string name_of(const Record& r);

 private:
  struct Place {
    std::string anchor;
    bool is_listed = true;
  };
  bool is_for_paper_;
  std::map<const Record*, Place> places_;
  std::vector<std::pair<std::string, std::vector<RecordRow>>> ops_;
};

/// The error tables of all ops, and folded into each its records.
std::string records_section(const RecordList& list);
/// An op's errors against sizes and against inputs, where its records have them.
std::string record_plots(const RecordList& list, const std::string& op,
                         const std::vector<RecordRow>& rows);

}  // namespace opbound::report
