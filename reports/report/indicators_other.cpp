// Indicators that are made from attributions, planted faults and claims.
#include <cmath>

#include "reports/page.hpp"
#include "reports/report/heat.hpp"
#include "reports/report/html.hpp"
#include "reports/report/indicators.hpp"
#include "reports/text.hpp"

namespace opbound::report::detail {
namespace {

const std::string attribute_command = "opbound attribute LOG.jsonl --step STEP --out FILE.jsonl";

/// The batch whose first order holds worst.
void add_unattributed(const Material& m, std::vector<Indicator>& to) {
  const std::string name = "unattributed share of the loss's error",
                    target = "below the second order, being of third";
  const AttributedBatch* worst = nullptr;
  const std::string* path = nullptr;
  std::uint64_t batches = 0, changed = 0;
  std::string changed_at;
  const auto excess = [](const AttributedBatch& b) {
    const double second = std::abs(b.predicted - b.predicted_exact);
    return b.unattributed == 0 ? 0 : std::abs(b.unattributed) / second;
  };
  for (const AttributionFile& file : m.inputs.attributions)
    for (const AttributedBatch& b : file.batches) {
      ++batches;
      if (b.changed > 0 && changed == 0)
        changed_at = html_text("step " + std::to_string(b.step) + " of " + file.path);
      changed += static_cast<std::uint64_t>(b.changed);
      if (b.root_of_squares == 0) continue;  // every class computed in fp64: there is nothing
      if (worst != nullptr && !(excess(b) > excess(*worst))) continue;
      worst = &b;
      path = &file.path;
    }
  const std::string wrong = "elements that a call did not read as they were written",
                    none = "0: a wait is missing otherwise";
  if (batches == 0) {
    to.push_back(not_run(name, target, attribute_command));
    to.push_back(not_run(wrong, none, attribute_command));
    return;
  }
  const Indicator read = none_of(wrong, none, changed, "", changed_at);
  if (worst == nullptr) {
    to.push_back({name, target, "nothing to attribute: no class errs", Standing::no_limit, ""});
    to.push_back(read);
    return;
  }
  const double second = std::abs(worst->predicted - worst->predicted_exact);
  const auto part = [&](double x) { return legible(std::abs(x) / worst->root_of_squares); };
  to.push_back({name, target,
                part(worst->unattributed) + " of the root of squares, second order " + part(second),
                excess(*worst) <= 1 ? Standing::pass : Standing::fail,
                link_to("heat", "step " + std::to_string(worst->step) + ", micro-batch " +
                                    std::to_string(worst->micro_batch) + " of " + *path)});
  to.push_back(read);
}

void add_parameters(const Material& m, std::vector<Indicator>& to) {
  const std::string name = "gradients beyond the sum of what their calls err",
                    target = "0 parameters, to first order";
  std::uint64_t count = 0, beyond = 0;
  const AttributedParameter* worst = nullptr;
  for (const AttributionFile& file : m.inputs.attributions)
    for (const AttributedParameter& p : file.parameters) {
      ++count;
      beyond += p.is_within ? 0 : 1;
      if (worst == nullptr || (worst->is_within && !p.is_within) ||
          (worst->is_within == p.is_within && p.measured > worst->measured))
        worst = &p;
    }
  if (worst == nullptr) {
    to.push_back(not_run(name, target, attribute_command));
    return;
  }
  to.push_back(none_of(
      name, target, beyond, "of " + std::to_string(count),
      html_text("largest deviation " + legible(worst->measured) +
                " of the gradient: " + worst->name + ", step " + std::to_string(worst->step))));
}

void add_power(const Material& m, std::vector<Indicator>& to) {
  const std::string missed = "planted faults that were missed", refused = "right kernels refused";
  if (m.inputs.powers.empty()) {
    to.push_back(not_run(missed, "0", "opbound power --out FILE.jsonl"));
    to.push_back(not_run(refused, "0", "opbound power --out FILE.jsonl"));
    return;
  }
  std::uint64_t faults = 0, not_caught = 0, cases = 0, flagged = 0;
  std::string fault, op;
  for (const auto& [path, table] : m.inputs.powers) {
    for (const PowerRow& row : table.rows) {
      ++faults;
      if (row.detection == Detection::caught) continue;
      if (not_caught++ == 0) fault = row.op + " " + row.name;
    }
    for (const AlarmCount& a : table.alarms) {
      if (a.rule != own_rule) continue;
      cases += a.cases;
      if (a.flagged_cases > 0 && flagged == 0) op = a.op;
      flagged += a.flagged_cases;
    }
  }
  to.push_back(none_of(missed, "0", not_caught, "of " + std::to_string(faults), html_text(fault)));
  to.push_back(
      none_of(refused, "0", flagged, "of " + std::to_string(cases) + " cases", html_text(op)));
}

void add_sentinel(const Material& m, std::vector<Indicator>& to) {
  const std::string missed = "faults planted in a run that were not found",
                    alarms = "alarms in runs without a fault";
  std::uint64_t planted = 0, lost = 0, wrong = 0;
  bool has_any = false;
  std::string fault, run;
  for (const SentinelFile& file : m.inputs.sentinels)
    for (const SentinelResult& r : file.results) {
      has_any = true;
      planted += r.is_planted() ? 1 : 0;
      if (r.is_planted() && !r.steps && lost++ == 0) fault = r.name;
      const auto here =
          static_cast<std::uint64_t>(r.false_alarms) + (r.kind == "clean_twin" && r.steps ? 1 : 0);
      if (here > 0 && wrong == 0) run = r.policy + (r.place.empty() ? "" : ": " + r.place);
      wrong += here;
    }
  if (!has_any) {
    to.push_back(not_run(missed, "0", "opbound sentinel FILE.toml --out FILE.jsonl"));
    to.push_back(not_run(alarms, "0", "opbound sentinel FILE.toml --out FILE.jsonl"));
    return;
  }
  to.push_back(none_of(missed, "0", lost, "of " + std::to_string(planted), html_text(fault)));
  to.push_back(none_of(alarms, "0", wrong, "", html_text(run)));
}

}  // namespace

void add_attribution_indicators(const Material& m, std::vector<Indicator>& to) {
  add_unattributed(m, to);
  add_parameters(m, to);
}

void add_test_indicators(const Material& m, std::vector<Indicator>& to) {
  add_power(m, to);
  add_sentinel(m, to);
}

}  // namespace opbound::report::detail
