#include "reports/report/report.hpp"

#include <optional>

#include "reports/compare_table.hpp"
#include "reports/page.hpp"
#include "reports/report/heat.hpp"
#include "reports/report/html.hpp"
#include "reports/report/indicators.hpp"
#include "reports/report/matrix.hpp"
#include "reports/report/sections.hpp"

namespace opbound::report {
namespace {

/// The two files of suites' records, if there are two with a check in common.
std::optional<Comparison> upgrade_of(const Inputs& inputs) {
  std::vector<const RecordFile*> files;
  for (const RecordFile& file : inputs.records)
    if (!file.is_audit()) files.push_back(&file);
  if (files.size() != 2) return std::nullopt;
  Comparison comparison = compare(files[0]->records, files[1]->records);
  if (comparison.counts.compared() + comparison.counts[Change::skipped] == 0) return std::nullopt;
  comparison.old_name = files[0]->path;
  comparison.new_name = files[1]->path;
  return comparison;
}

std::string upgrade_section(const std::optional<Comparison>& upgrade) {
  if (!upgrade)
    return paragraph(
        "Not run: two files of records with a check in common are compared, the old "
        "one first.");
  std::string list;
  for (const Told& told : upgrade->differences())
    list += "<li>" + html_text(text_of(told, "\u2192")) + "</li>\n";
  return paragraph("old: " + html_text(upgrade->old_name) +
                   "<br>new: " + html_text(upgrade->new_name)) +
         (list.empty() ? "" : "<p>The runs differ in:</p>\n<ul>\n" + list + "</ul>\n") +
         "<div class=\"wide\" role=\"region\" tabindex=\"0\" aria-label=\"the two runs "
         "compared\">" +
         opbound::detail::compare_body(*upgrade, "h3") + "</div>\n";
}

struct Part {
  const char *anchor, *title;
  std::string inner;
};

std::string contents(const std::vector<Part>& parts) {
  std::string text = "<nav aria-label=\"Parts of this page\"><ul>\n";
  for (const Part& part : parts) text += "<li>" + link_to(part.anchor, part.title) + "</li>\n";
  return text + "</ul></nav>\n";
}

std::string title_of(const Inputs& inputs) {
  std::vector<std::string> names;
  for (const RecordFile& f : inputs.records) names.push_back(f.path);
  for (const LogFile& f : inputs.logs) names.push_back(f.path);
  for (const std::string& path : inputs.traces) names.push_back(path);
  std::string text = "opbound report";
  for (std::size_t i = 0; i < names.size() && i < 2; ++i)
    text += (i == 0 ? ": " : ", ") + names[i].substr(names[i].rfind('/') + 1);
  return text + (names.size() > 2 ? " and more" : "");
}

}  // namespace

std::string report_page(const Inputs& inputs, const PageOptions& options) {
  const bool paper = options.is_for_paper;
  const RecordList list(inputs, paper);
  const Traces traces = read_traces(inputs.traces, inputs.twins);
  const std::optional<Comparison> upgrade = upgrade_of(inputs);
  const Material material{inputs, list, traces, upgrade ? &*upgrade : nullptr};
  const std::vector<Part> parts{{"dashboard", "Dashboard", dashboard(indicators_of(material))},
                                {"suggestions", "What helps",
                                 suggestions_section(inputs, options.tried, options.asked_to_try)},
                                {"heat", "Where the error comes from", attribution_section(inputs)},
                                {"pair", "The pair of runs", distance_section(traces)},
                                {"training", "Training", training_section(inputs, traces)},
                                {"alarms", "Alarms", alarms_section(traces)},
                                {"nodes", "Nodes: bound, test, trace", matrix_section(material)},
                                {"errors", "Errors of operators", records_section(list)},
                                {"upgrade", "Old and new", upgrade_section(upgrade)},
                                {"faults", "What finds which fault", faults_section(inputs)},
                                {"claims", "Claims", claims_section(inputs)},
                                {"environment", "Environment", environment_section(inputs, traces)},
                                {"files", "Files", sources_section(inputs, traces)}};
  std::string style(opbound::detail::compare_style());
  style += report_style();
  std::string text = page_head(title_of(inputs), style) + contents(parts) + "<main>\n";
  for (const Part& part : parts) text += section(part.anchor, part.title, part.inner);
  text += "</main>\n" + page_end();
  return paper ? unfolded(std::move(text)) : text;
}

}  // namespace opbound::report
