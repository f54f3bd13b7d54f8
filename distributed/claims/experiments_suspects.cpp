// How many operations are left to suspect once a run with a planted fault has been looked at.
#include <algorithm>
#include <set>
#include <tuple>

#include "distributed/claims/experiment.hpp"
#include "distributed/claims/training_lab.hpp"
#include "distributed/claims/training_lists.hpp"
#include "distributed/trace/audit.hpp"
#include "distributed/trace/planted.hpp"
#include "distributed/train/trainer.hpp"
#include "reports/error.hpp"

namespace opbound::claims {
namespace {

/// What somebody has to look at by itself: a part of the model, in one layer, in one pass.
using Operation = std::tuple<std::string, int, std::string>;

/// Every operation of a step.
class Operations final : public train::Observer {
 public:
  explicit Operations(std::int64_t step) : step_(step) {}

  bool sees_calls(std::int64_t step, std::int64_t /*micro_batch*/) override {
    return step == step_;
  }
  void before_call(const train::CallPlace& place, const train::Step& step,
                   const Call& /*call*/) override {
    if (place.step == step_)
      all.insert({step.part, step.layer, std::string(name_of(step.spec.direction))});
  }

  std::set<Operation> all;

 private:
  std::int64_t step_;
};

struct Suspects {
  double operations = 0, left = 0;
  bool is_found = false, is_right = false;
};

/// The run with this fault, audited at the fault's step.
Suspects suspects_of(const trace::PlantedFault& fault, std::int64_t from, Laboratory& laboratory) {
  laboratory.note("plants " + std::string(fault.name));
  train::TrainingSpec spec = variation_of(std::string(fault.policy), from + 1).spec;
  spec.policy.dropout = fault.dropout;
  if (fault.recomputes) spec.policy.checkpointing = train::Checkpointing::all;
  spec.model.norm_eps = fault.norm_eps;
  const std::unique_ptr<train::Observer> planted = fault.make(from);
  Operations operations(from);
  trace::AuditOptions how;
  how.steps = {from};
  trace::Audit audit(how);
  train::TrainOptions options;
  options.device = laboratory.device;
  options.observers = {planted.get(), &operations, &audit};
  train::Trainer trainer(spec, options);
  trainer.set_initial_weights();
  for (std::int64_t step = 0; step <= from; ++step) trainer.step();
  Suspects s;
  s.operations = s.left = static_cast<double>(operations.all.size());
  std::set<Operation> named;
  for (const trace::Finding& f : audit.findings()) {
    // What is of no operation is one thing to look at: a sum over ranks, a parameter's state.
    named.insert(f.part.empty() ? Operation{f.check, f.layer, f.parameter}
                                : Operation{f.part, f.layer, f.direction});
    s.is_right = s.is_right || fault.is_named_by(text_of(f));
  }
  if (named.empty()) return s;
  s.is_found = true;
  s.left = static_cast<double>(named.size());
  return s;
}

Measured suspects(const Given& given, Laboratory& laboratory) {
  std::vector<double> shares, wrong;
  double operations = 0, found = 0;
  for (const std::string& name : given.words("faults")) {
    const Suspects s = suspects_of(trace::planted_fault(name), given.whole("from"), laboratory);
    // A loss says that something is wrong, and nothing of where.
    const bool is_of_loss = given.text("looks_at") == "loss";
    shares.push_back(is_of_loss ? 1 : s.left / s.operations);
    wrong.push_back(is_of_loss || s.is_right ? 0 : 1);
    operations = std::max(operations, s.operations);
    found += s.is_found ? 1 : 0;
  }
  Measured m;
  m.add("faults", static_cast<double>(shares.size()), "planted faults, each in a run of its own");
  m.add("operations", operations, "parts of the model by layer and pass, in the largest run");
  m.add("found", found, "faults that the audit of their first step finds");
  // Of these very faults: nothing is drawn, and nothing said of others.
  m.add("left", mean_of(shares), "share of the operations left to suspect, mean over the faults");
  m.add("most_left", *std::ranges::max_element(shares), "and the largest");
  double misled = 0;
  for (const double w : wrong) misled += w;
  m.add("misled", misled, "faults whose place is not among those that are named");
  return m;
}

}  // namespace

Experiments suspect_experiments() {
  return {{"suspects",
           "planted faults: what is left to suspect by the audit in a report, or by the loss",
           {{"faults",
             std::string("truncation rotated_query_gradient large_norm_gradient swapped_heads "
                         "stale_rows clamped_loss vanished_eps divided_loss mask_reused "
                         "unrestored_random")},
            {"from", std::int64_t{2}},
            {"looks_at", std::string("audit")}},
           suspects}};
}

}  // namespace opbound::claims
