// Cuts of a call judged together: as if they were one smaller case.
#pragma once

#include <map>
#include <string_view>
#include <vector>

#include "distributed/trace/cut.hpp"
#include "ops/op.hpp"
#include "reference/certify.hpp"

namespace opbound::trace {

/// What was found so far of the outputs of a call, of the blocks that were judged.
class CutJudge {
 public:
  /// Both have to outlive it.
  CutJudge(const Op& op, const Contract& contract) : op_(op), contract_(contract) {}

  /// Judges these outputs of the cut, each element against a reference that decides it.
  void judge(const Cut& cut, const std::vector<std::string_view>& outputs);
  /// Of an output's blocks so many were judged, of so many.
  void count(int tensor, std::int64_t judged, std::int64_t all);

  /// In the order of the pass's tensors; indices are those of the whole call.
  std::vector<OutputCheck> checks() const;

 private:
  struct Sum {
    Tally tally;
    UlpHistogram::Counts histogram{};
    JudgedElement worst{};
    BlockCounts blocks;
    std::uint64_t by_mpfr = 0, by_theorem = 0;
  };

  const Op& op_;
  const Contract& contract_;
  std::map<int, Sum> sums_;
};

}  // namespace opbound::trace
