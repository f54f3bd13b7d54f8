// What `opbound env --audit` finds, as figures.
#include "distributed/claims/audit.hpp"
#include "distributed/claims/experiment.hpp"
#include "distributed/claims/training_lists.hpp"

namespace opbound::claims {
namespace {

Measured audit_settings(const Given& given, Laboratory& laboratory) {
  const Tried tried = by_processes(laboratory.device);
  double settings = 0, tried_count = 0, changing = 0, missing = 0, timing = 0, order = 0, open = 0;
  for (const Setting& s : committed_settings()) {
    if (s.kind != given.text("kind")) continue;
    laboratory.note("audits " + s.name);
    const Audited a = audit(s, tried);
    settings += 1;
    tried_count += a.is_tried ? 1 : 0;
    changing += a.effect == Effect::bits || a.effect == Effect::order ? 1 : 0;
    order += a.effect == Effect::order ? 1 : 0;
    missing += a.effect == Effect::does_not_exist ? 1 : 0;
    timing += a.effect == Effect::timing || a.effect == Effect::placebo ? 1 : 0;
    open += a.effect == Effect::not_testable ? 1 : 0;
  }
  Measured m;
  m.add("settings", settings, "settings in the list");
  m.add("tried", tried_count, "of them, those that were tried here");
  m.add("changing", changing, "those that change bits, or the order of a sum");
  m.add("order", order, "of these, those that change an order");
  m.add("idle", timing, "those that change timing, or nothing");
  m.add("missing", missing, "those that do not exist");
  m.add("open", open, "those that cannot be told here");
  return m;
}

}  // namespace

Experiments audit_experiments() {
  return {{"audit",
           "the settings or seeds that are said to harden a machine, one by one",
           {{"kind", std::string("setting")}},
           audit_settings}};
}

}  // namespace opbound::claims
