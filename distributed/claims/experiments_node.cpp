// The sensitive nodes of a run, and what is refused before it computes.
#include <algorithm>
#include <filesystem>
#include <set>

#include "distributed/claims/experiment.hpp"
#include "distributed/claims/training_lab.hpp"
#include "distributed/claims/training_lists.hpp"
#include "reports/error.hpp"
#include "reports/history.hpp"
#include "reports/scratch_folder.hpp"
#include "suites/folder.hpp"
#include "suites/tensor_file.hpp"

namespace opbound::claims {
namespace {

namespace fs = std::filesystem;

/// Notes the ops of a run's calls.
class OpsSeen final : public train::Observer {
 public:
  bool sees_calls(std::int64_t, std::int64_t) override { return true; }
  void before_call(const train::CallPlace&, const train::Step& step, const Call&) override {
    seen.insert(std::string(step.spec.op->name));
  }

  std::set<std::string> seen;
};

/// Does every node have a bound, a committed test, and a call that a run's observers see?
Measured nodes(const Given& given, Laboratory& laboratory) {
  const fs::path suites = suites_folder("claims");
  const fs::path file = suites.parent_path() / "reports" / "baseline" / given.text("file");
  std::error_code ignored;
  if (!fs::exists(file, ignored)) throw Unavailable("the committed records are not here");
  std::set<std::string> tested;
  for (const Record& r : read_records(file.string()))
    if (r.verdict == Verdict::within && r.kind == CheckKind::bound) tested.insert(r.op);
  OpsSeen ops;
  const Variation v = variation_of(given.text("run"), 1);
  train::TrainOptions options;
  options.device = laboratory.device;
  options.observers = {&ops};
  train::Trainer trainer(v.spec, options);
  trainer.set_initial_weights();
  trainer.step();
  double count = 0, unbounded = 0, untested = 0, unseen = 0;
  for (const std::string& name : given.words("nodes")) {
    const Op* op = find_op(name);
    if (op == nullptr) throw InputError("", "no op '" + name + "'", "an op");
    count += 1;
    unbounded += op->bound == nullptr ? 1 : 0;
    untested += tested.contains(name) ? 0 : 1;
    unseen += ops.seen.contains(name) ? 0 : 1;
  }
  Measured m;
  m.source = "reports/baseline/" + given.text("file");
  m.add("nodes", count, "nodes that were asked for");
  m.add("without_bound", unbounded, "of them, those without a derived bound");
  m.add("without_test", untested, "those without a committed check within its bound");
  m.add("without_call", unseen, "those of which a run's observers see no call");
  return m;
}

/// A tensor of one type, asked for as another.
bool is_refused(const fs::path& folder, Element is, Element wanted) {
  const fs::path file = folder / "tensor.npy";
  Tensor tensor(is, {4});
  write_npy(file, tensor);
  try {
    read_tensor(file, {{}, wanted});
    return false;
  } catch (const InputError& e) {
    return std::string(e.what()).find('\n') == std::string::npos;
  }
}

Measured refused_types(const Given&, Laboratory&) {
  const ScratchFolder scratch;
  const fs::path& folder = scratch.path();
  double wrong = 0, refused = 0, right_refused = 0;
  for (const Element is : {Element::fp64, Element::fp32, Element::fp16, Element::int64}) {
    wrong += 1;
    refused += is_refused(folder, is, Element::bf16) ? 1 : 0;
  }
  for (const Element is : {Element::fp32, Element::fp64, Element::boolean}) {
    wrong += 1;
    refused += is_refused(folder, is, Element::int64) ? 1 : 0;
  }
  right_refused += is_refused(folder, Element::bf16, Element::bf16) ? 1 : 0;
  right_refused += is_refused(folder, Element::int64, Element::int64) ? 1 : 0;
  Measured m;
  m.add("wrong", wrong, "types that were given where logits have to be bf16, targets int64");
  m.add("refused", refused, "of them, those that one line refused");
  m.add("right_refused", right_refused, "right types that were refused");
  return m;
}

}  // namespace

Experiments node_experiments() {
  return {{"nodes",
           "which sensitive nodes lack a bound, a committed test, or a call in a run",
           {{"nodes", std::string("layer_norm matmul attention gelu residual dropout embedding "
                                  "cross_entropy unscale global_norm clip adamw")},
            {"run", std::string("fp16-scaled dropout=0.1")},
            {"file", std::string("h200_quick.jsonl.gz")}},
           nodes},
          {"refused_types",
           "tensors of other types than the ones that are asked for",
           {},
           refused_types}};
}

}  // namespace opbound::claims
