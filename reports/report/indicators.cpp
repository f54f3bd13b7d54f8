#include "reports/report/indicators.hpp"

#include "reports/page.hpp"
#include "reports/report/html.hpp"

namespace opbound::report {

namespace detail {

Indicator none_of(const std::string& name, const std::string& target, std::uint64_t count,
                  const std::string& unit, const std::string& source) {
  return {name, target, std::to_string(count) + (unit.empty() ? "" : " " + unit),
          count == 0 ? Standing::pass : Standing::fail, source};
}

Indicator not_run(const std::string& name, const std::string& target, const std::string& command) {
  return {name, target, "", Standing::not_run, "<code>" + html_text(command) + "</code>"};
}

}  // namespace detail

std::vector<Indicator> indicators_of(const Material& material) {
  std::vector<Indicator> all;
  detail::add_record_indicators(material, all);
  detail::add_log_indicators(material, all);
  detail::add_trace_indicators(material, all);
  detail::add_attribution_indicators(material, all);
  detail::add_test_indicators(material, all);
  return all;
}

std::string dashboard(const std::vector<Indicator>& indicators) {
  HtmlTable table("Indicators: what is measured, and by which limit",
                  {"indicator", "target", "measured", "result", "where it comes from"}, "cards");
  HtmlTable others("Indicators that were not run, and what runs them",
                   {"indicator", "target", "result", "by"}, "cards");
  std::array<std::size_t, 4> counts{};
  for (const Indicator& i : indicators) {
    constexpr std::array<std::string_view, 4> told{"pass", "not passed", "no limit", "not run"};
    constexpr std::array<std::string_view, 3> kinds{"pass", "fail", "faint"};
    const auto at = static_cast<std::size_t>(i.standing);
    ++counts[at];
    if (i.standing == Standing::not_run) {
      others.row({words(i.name), words(i.target), words(told[at], "faint short"), {i.source}});
      continue;
    }
    table.row({words(i.name),
               words(i.target),
               words(i.measured),
               words(told[at], std::string(kinds[at]) + " short"),
               {i.source.empty() ? "nothing deviates" : i.source}});
  }
  return paragraph("<b>" + std::to_string(counts[0]) + " passed, " + std::to_string(counts[1]) +
                       " not passed</b>, " + std::to_string(counts[2]) + " without a limit, " +
                       std::to_string(counts[3]) + " not run.",
                   false) +
         (table.is_empty() ? "" : table.html()) +
         (others.is_empty()
              ? ""
              : folded(std::to_string(counts[3]) + " indicators that were not run", others.html()));
}

}  // namespace opbound::report
