#include "reports/report/matrix.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "ops/op.hpp"
#include "reports/page.hpp"
#include "reports/report/html.hpp"
#include "reports/standing.hpp"
#include "reports/text.hpp"

namespace opbound::report {
namespace {

/// "backward_local" and "backward_full" are one pass.
bool is_backward(std::string_view direction) { return direction.starts_with("backward"); }

/// "running; a theorem for 137" without the number of elements, which is each record's own.
std::string kind_of_source(const std::string& source) {
  const auto end = source.find_last_not_of("0123456789");
  constexpr std::string_view by_count = " for ";
  const std::string kind = source.substr(0, end + 1);
  return end + 1 < source.size() && kind.ends_with(by_count)
             ? kind.substr(0, kind.size() - by_count.size()) + " for some elements"
             : source;
}

struct Node {
  std::uint64_t checks = 0, failing = 0, audited = 0;
  const Record* worst = nullptr;
  const Record* audited_worst = nullptr;
  std::set<std::string> sources;  ///< of bounds
  std::set<std::string> places;   ///< parts of the run's calls
  std::uint64_t calls = 0;        ///< of the tapes

  void take(const Record& r) {
    if (!r.bound_source.empty()) sources.insert(kind_of_source(r.bound_source));
    failing += makes_run_fail(r) ? 1 : 0;
    const Record*& to = r.in_situ ? audited_worst : worst;
    (r.in_situ ? audited : checks) += 1;
    if (to == nullptr || standing(r) < standing(*to) ||
        (standing(r) == standing(*to) && r.ratio.value_or(-1) > to->ratio.value_or(-1)))
      to = &r;
  }
};

using Nodes = std::map<std::pair<std::string, bool>, Node>;

Nodes nodes_of(const Material& m) {
  Nodes nodes;
  for (const RecordFile& file : m.inputs.records)
    for (const Record& r : file.records) nodes[{r.op, is_backward(r.direction)}].take(r);
  for (const TraceRun& run : m.traces.runs)
    for (const trace::TraceCall& c : run.calls) {
      Node& node = nodes[{c.op, is_backward(c.direction)}];
      ++node.calls;
      node.places.insert(c.layer < 0 ? c.part : c.part + " of layer " + std::to_string(c.layer));
    }
  return nodes;
}

HtmlCell command(const std::string& text) {
  return {"not run: <code>" + html_text(text) + "</code>"};
}

HtmlCell verdict_cell(const RecordList& list, const Record& r, std::uint64_t count) {
  const std::string text = std::string(name_of(r.verdict)) + (is_allowed(r) ? "*" : "") +
                           (r.ratio && r.verdict != Verdict::vacuous  // there it is of nothing
                                ? ", ratio " + legible(*r.ratio)
                                : "");
  return {
      list.link(r, text) + " <span class=\"faint\">worst of " + std::to_string(count) + "</span>",
      makes_run_fail(r) ? "fail" : ""};
}

HtmlCell bound_cell(const Node& node, const Op* op) {
  std::string text;
  for (const std::string& source : node.sources) text += (text.empty() ? "" : " / ") + source;
  if (!text.empty()) return words(text);
  if (node.checks + node.audited > 0) return words("exact: bits are compared, no bound is needed");
  if (op == nullptr) return words("no op of the table: it is of another program");
  return words("derived when it runs, for " + std::to_string(op->variants.size()) +
               (op->variants.size() == 1 ? " algorithm" : " algorithms"));
}

HtmlCell run_cell(const Material& m, const Node& node) {
  if (m.traces.runs.empty() && node.audited == 0) return words("not run");
  if (node.calls == 0 && node.audited == 0) return words("no call of this run");
  std::string text;
  if (node.calls > 0) {
    const bool is_long = node.places.size() > 3;
    text = std::to_string(node.calls) + " calls: ";
    std::size_t shown = 0;
    for (const std::string& place : node.places) {
      if (shown == 3) break;
      text += (shown++ == 0 ? "" : ", ") + html_text(place);
    }
    if (is_long) text += " and " + std::to_string(node.places.size() - 3) + " more";
  }
  return {text.empty() ? "in the audit" : text};
}

HtmlCell audit_cell(const Material& m, const Node& node) {
  if (node.audited > 0) return verdict_cell(m.list, *node.audited_worst, node.audited);
  if (!m.traces.runs.empty() && node.calls == 0) return words("no call of this run");
  return words("not run");
}

}  // namespace

std::string matrix_section(const Material& m) {
  Nodes nodes = nodes_of(m);
  HtmlTable table("Nodes by what is known of them",
                  {"op", "pass", "bound", "op test", "trace in the run", "audit in the run"},
                  "cards");
  const auto row = [&](const std::string& name, bool backward, const Op* op) {
    const Node& node = nodes[{name, backward}];
    const HtmlCell test = node.checks > 0 ? verdict_cell(m.list, *node.worst, node.checks)
                          : op != nullptr
                              ? command("opbound run suites/" + name + ".toml --out FILE.jsonl")
                              : words("no suite: no op of the table");
    table.row({words(name), words(backward ? "backward" : "forward"), bound_cell(node, op), test,
               run_cell(m, node), audit_cell(m, node)});
  };
  for (const Op& op : all_ops()) {
    row(std::string(op.name), false, &op);
    if (op.backward) row(std::string(op.name), true, &op);
  }
  std::vector<std::pair<std::string, bool>> others;
  for (const auto& [name, node] : nodes)
    if (find_op(name.first) == nullptr) others.push_back(name);
  for (const auto& [name, backward] : others) row(name, backward, nullptr);
  return table.html() +
         paragraph(
             "What was not run of the run itself: <code>opbound train FILE.toml --trace FILE.trace"
             "</code> writes the calls, <code>--audit 100 --audit-out FILE.jsonl</code> judges "
             "them.");
}

}  // namespace opbound::report
