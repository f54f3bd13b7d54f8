// What finds which fault: opbound and the rules in use today (rivals.hpp) on the same outputs of
// the same faulty kernels, and what they refuse of kernels that are right.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bounds/verdict.hpp"
#include "reports/table.hpp"

namespace opbound {

/// Of a fault by a rule. A rule that refuses the same kernel without the fault too tells nothing:
/// it is `both`, and not counted as caught.
enum class Detection : std::uint8_t { caught, both, missed, not_for };
inline constexpr std::array<std::string_view, 4> detection_names{"caught", "both", "missed", "n/a"};
constexpr std::string_view name_of(Detection d) {
  return detection_names[static_cast<std::size_t>(d)];
}

/// A rule on a row.
struct RuleResult {
  std::string rule;
  Detection detection = Detection::not_for;
  std::uint64_t flagged = 0;          ///< elements of the faulty kernel that it refuses
  std::uint64_t control_flagged = 0;  ///< and of the same kernel without the fault
  std::string why_not;                ///< it does not apply

  bool operator==(const RuleResult&) const = default;
};

/// A fault: planted, or publicly reported and made again.
struct PowerRow {
  std::string family;  ///< "op", "case", "collective"
  std::string op, name, what, direction, precision, shape;
  std::uint64_t elements = 0;  ///< judged outputs
  Detection detection = Detection::missed;
  Verdict verdict = Verdict::within;  ///< opbound's of the faulty kernel
  Verdict control = Verdict::within;  ///< and of the same kernel without the fault
  std::string found_by;               ///< the output, or the check, that exceeds
  std::optional<double> ratio;        ///< the largest error over its bound
  std::vector<RuleResult> rules;

  bool operator==(const PowerRow&) const = default;
};

/// What a rule refuses of right kernels, over the cases of an op whose inputs are alike.
struct AlarmCount {
  std::string op;
  std::string inputs;  ///< one of input_classes
  std::string rule;    ///< of rivals(), or "opbound"
  std::uint64_t cases = 0, flagged_cases = 0, elements = 0, flagged_elements = 0;

  bool operator==(const AlarmCount&) const = default;
};

/// Ordinary: every input is drawn as the tests that are cited draw theirs, normal or uniform and of
/// size 1, no size is 0, and the kernel computes in fp32 or fp64. Hard: all others. Another
/// algorithm than the op's first one may rightly err by more, so that a rule which refuses it is
/// told apart.
inline constexpr std::array<std::string_view, 3> input_classes{"ordinary", "hard",
                                                               "other algorithm"};

inline constexpr std::string_view own_rule = "opbound";

struct PowerTable {
  std::string commit;    ///< of opbound
  std::string cases;     ///< which right kernels ran: "quick tier, 34 seeds"
  bool is_whole = true;  ///< false: it was interrupted
  std::vector<PowerRow> rows;
  std::vector<AlarmCount> alarms;

  /// Everything is found, and nothing refused that is right.
  bool is_perfect() const;
  bool operator==(const PowerTable&) const = default;
};

/// One line of JSON for the run, each row and each count; reports/README.md describes them.
std::string to_json_lines(const PowerTable& table);
/// The last run of a file that holds such lines. Throws InputError with file and line for anything
/// else: another schema, an unknown or missing field, a wrong type.
PowerTable read_power(const std::string& path);

/// What every rule caught, missed and refused wrongly; the faults that opbound missed and the right
/// kernels that it refused; with `all` (and as Markdown) every fault.
std::string power_table(const PowerTable& table, const TableOptions& options);
/// A page in Markdown: the tables, where the figures are from, what the words mean.
std::string power_page(const PowerTable& table);
/// Caught, missed and wrongly refused, as bars: an SVG of its own.
std::string power_plot(const PowerTable& table);

namespace detail {

/// Rows and right kernels by what a rule made of them.
struct RuleTotals {
  std::string rule;
  std::array<std::uint64_t, 4> rows{};              ///< by Detection
  std::array<std::uint64_t, 3> cases{}, flagged{};  ///< by input class
  std::array<std::uint64_t, 3> elements{}, flagged_elements{};

  std::uint64_t operator[](Detection d) const { return rows[static_cast<std::size_t>(d)]; }
};
/// opbound first, then the rules in the order of the rows.
std::vector<RuleTotals> totals_of(const PowerTable& table);

}  // namespace detail
}  // namespace opbound
