// Errors of an op's checks against their sizes and against the inputs that they occur at.
#include <algorithm>
#include <cmath>

#include "reports/report/plot.hpp"
#include "reports/report/record_list.hpp"
#include "reports/standing.hpp"

namespace opbound::report {
namespace {

/// Of a logarithmic axis for errors: what is smaller, 0 too, stands at its foot, what is larger at
/// its top. One element next to a zero would squeeze all others into a line otherwise.
constexpr double foot = 1e-6, highest = 1e6;

double shown(double error) {
  return std::isnan(error) ? highest : std::clamp(error, foot, highest);
}

double size_of(const Record& r) {
  double size = 1;
  for (const auto& [name, n] : r.inputs.shape) size *= static_cast<double>(n);
  return size;
}

}  // namespace

std::string record_plots(const RecordList& list, const std::string& op,
                         const std::vector<RecordRow>& rows) {
  std::vector<PlotPoint> by_size, bound_by_size, by_input;
  for (const RecordRow& row : rows)
    for (const Record* r : row.records) {
      if (r->verdict == Verdict::vacuous) continue;
      const bool leads = list.is_listed(*r) && !list.is_for_paper();
      PlotPoint p{size_of(*r), shown(r->error_ulp_max.value_or(0)), "", "", makes_run_fail(*r)};
      if (leads) {
        p.title = RecordList::name_of(*r);
        p.anchor = list.anchor(*r);
      }
      if (r->error_ulp_max) by_size.push_back(p);
      p.y = shown(r->ratio.value_or(0));
      if (r->ratio) bound_by_size.push_back(p);
      if (!r->worst || r->worst->input.size() != 1 || !r->ratio) continue;
      p.x = std::abs(r->worst->input.front().second);
      by_input.push_back(p);
    }
  const PlotAxis size{"product of " + op + "'s sizes", true, {}};
  const PlotAxis ratio{"largest error over its bound", true, 1.0};
  const std::string text =
      scatter_plot(op + ": largest error of each check against its size", size,
                   {"largest error, ulp", true, {}}, by_size) +
      scatter_plot(op + ": error over bound of each check against its size", size, ratio,
                   bound_by_size) +
      scatter_plot(op + ": error over bound of each check against the input it occurs at",
                   {"magnitude of the worst element's input", true, {}}, ratio, by_input);
  return text.empty() ? "" : "<div class=\"plots\">\n" + text + "</div>\n";
}

}  // namespace opbound::report
