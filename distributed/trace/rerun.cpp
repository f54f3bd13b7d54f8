#include "distributed/trace/rerun.hpp"

#include "ops/hash.hpp"

namespace opbound::trace {

std::vector<Rerun> rerun_own(const CaseSpec& spec, const Call& call) {
  const auto& tensors = spec.op->pass(call.direction).tensors;
  Call again = call;
  auto& views = call.direction == Direction::forward ? again.forward : again.backward;
  std::vector<Tensor> outputs(views.size());
  for (std::size_t t = 0; t < views.size(); ++t) {
    if (!tensors[t].is_written() || views[t].data == nullptr) continue;
    outputs[t] = Tensor(views[t].element, Shape(views[t].size, views[t].size + views[t].rank));
    views[t] = outputs[t].view();
  }
  spec.op->run(again);
  std::vector<Rerun> all;
  for (std::size_t t = 0; t < views.size(); ++t) {
    if (!tensors[t].is_judged() || views[t].data == nullptr) continue;
    const TensorView& got = call.judged()[t];
    Rerun r{static_cast<int>(t), views[t].count()};
    for (std::int64_t i = 0; i < r.checked; ++i) {
      if (canonical_bits(got, i) == canonical_bits(views[t], i)) continue;
      if (r.different++ > 0) continue;
      r.first = i;
      r.got = got.at(i);
      r.expected = views[t].at(i);
    }
    all.push_back(r);
  }
  return all;
}

}  // namespace opbound::trace
