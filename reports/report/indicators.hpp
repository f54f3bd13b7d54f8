// The dashboard: what is measured, by which limit it is judged, and where a deviation comes from.
// A limit is derived (a bound, a prediction interval) or a word of the record; without one there is
// no verdict.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reports/compare.hpp"
#include "reports/report/inputs.hpp"
#include "reports/report/record_list.hpp"
#include "reports/report/traces.hpp"

namespace opbound::report {

enum class Standing : std::uint8_t { pass, fail, no_limit, not_run };

struct Indicator {
  std::string name;
  std::string target;    ///< "at most 1 (the derived bound)"
  std::string measured;  ///< empty: not run
  Standing standing = Standing::not_run;
  /// HTML: where the deviation comes from, with a link to its record; of what did not run the
  /// command that runs it.
  std::string source;
};

/// All that a report's parts share.
struct Material {
  const Inputs& inputs;
  const RecordList& list;
  const Traces& traces;
  const Comparison* upgrade = nullptr;  ///< of the two files of records; null: not two
};

/// Always the same rows in the same order.
std::vector<Indicator> indicators_of(const Material& material);

namespace detail {
void add_record_indicators(const Material& material, std::vector<Indicator>& to);
void add_log_indicators(const Material& material, std::vector<Indicator>& to);
void add_trace_indicators(const Material& material, std::vector<Indicator>& to);
void add_attribution_indicators(const Material& material, std::vector<Indicator>& to);
void add_test_indicators(const Material& material, std::vector<Indicator>& to);

/// `count` of what should not be there at all; `source` where there is one.
Indicator none_of(const std::string& name, const std::string& target, std::uint64_t count,
                  const std::string& unit, const std::string& source);
Indicator not_run(const std::string& name, const std::string& target, const std::string& command);
}  // namespace detail

/// The dashboard's table.
std::string dashboard(const std::vector<Indicator>& indicators);

}  // namespace opbound::report
