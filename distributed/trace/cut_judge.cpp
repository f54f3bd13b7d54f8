#include "distributed/trace/cut_judge.hpp"

#include <algorithm>

#include "suites/run.hpp"

namespace opbound::trace {

void CutJudge::judge(const Cut& cut, const std::vector<std::string_view>& outputs) {
  const BoundArrays bounds = bounds_of(op_, cut.call, contract_);
  const auto views = cut.call.judged();
  ReferenceArrays reference(views.size());
  op_.reference_dd(cut.call, reference);
  std::vector<FirstRung> rungs = judged_outputs(op_, cut.call);
  const auto& tensors = op_.pass(cut.call.direction).tensors;
  std::erase_if(rungs, [&](const FirstRung& o) {
    const std::string_view name = tensors[static_cast<std::size_t>(o.tensor)].name;
    return std::find(outputs.begin(), outputs.end(), name) == outputs.end();
  });
  for (FirstRung& o : rungs) {
    o.judge.sharpens_doubts = false;  // a verdict is what is asked for, not an error's fourth digit
    const auto t = static_cast<std::size_t>(o.tensor);
    const JudgedOutput judged{views[t],
                              bounds[t].value.data(),
                              bounds[t].radius.data(),
                              reference[t].exact.data(),
                              reference[t].gauge.data(),
                              o.judge};
    for (std::int64_t i = 0; i < views[t].count(); ++i) {
      o.open.push_back(i);
      o.elements.push_back(judged.element(i));
    }
    o.tally.undecided = o.open.size();  // `join` takes them off again
    o.by_theorem = bounds[t].by_theorem;
  }
  climb(op_, cut.call, rungs);
  for (FirstRung& o : rungs) {
    join(o);
    if (o.tally.worst >= 0)
      o.tally.worst = cut.place_in_whole(static_cast<std::size_t>(o.tensor), o.tally.worst);
    Sum& sum = sums_[cut.stands_for >= 0 ? cut.stands_for : o.tensor];
    const std::int64_t before = sum.tally.worst;
    sum.tally.add(o.tally);
    if (sum.tally.worst == o.tally.worst && before != o.tally.worst) sum.worst = o.worst;
    for (std::size_t k = 0; k < sum.histogram.size(); ++k) sum.histogram[k] += o.histogram[k];
    sum.by_mpfr += o.sent_to_mpfr - o.left.size();
    sum.by_theorem += o.by_theorem;
  }
}

void CutJudge::count(int tensor, std::int64_t judged, std::int64_t all) {
  sums_[tensor].blocks = {static_cast<std::uint64_t>(all), static_cast<std::uint64_t>(judged)};
}

std::vector<OutputCheck> CutJudge::checks() const {
  std::vector<OutputCheck> checks;
  for (const auto& [tensor, sum] : sums_) {
    OutputCheck c = check_of(sum.tally, sum.histogram, sum.worst);
    c.tensor = tensor;
    c.by_theorem = sum.by_theorem;
    c.rungs.mpfr = sum.by_mpfr;
    c.rungs.dd = c.counts.checked - sum.by_mpfr;
    c.blocks = sum.blocks;
    checks.push_back(c);
  }
  return checks;
}

}  // namespace opbound::trace
