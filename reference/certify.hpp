// Judging every output of a call against a reference that is sharpened until each verdict is
// certain.
#pragma once

#include <vector>

#include "bounds/judge.hpp"
#include "ops/op.hpp"
#include "reports/record.hpp"

namespace opbound {

/// What judging one output tensor gave. Statistics are over elements whose exact and got value are
/// numbers.
struct OutputCheck {
  int tensor = 0;  ///< place in the pass's tensor list
  ElementCounts counts;
  double ratio = 0;
  double acceptable_mean = 0, acceptable_max = 0;
  double error_ulp_max = 0, error_ulp_mean = 0;
  double bias_ulp = 0, bias_z = 0;
  UlpHistogram histogram;
  Rungs rungs;
  BlockCounts blocks;
  std::uint64_t nonfinite_mismatch = 0;
  /// The element with the largest ratio, then the largest error, then the smallest index; `input`
  /// is left empty.
  Worst worst;
  Exact worst_exact;
};

/// The verdict over a tensor: failing elements first; vacuous where most elements are.
Verdict verdict_of(const ElementCounts& counts);

/// Judges the outputs that the call's views hold. The definition is run in double-double; blocks
/// with elements that this cannot decide, or whose error it does not tell to 2^-16 ulp, are run
/// again in intervals of 128, 256, ... bits, up to `most_bits`; what is left is undecided. From
/// fp64's largest to its smallest number are 2098 bits.
std::vector<OutputCheck> certify(const Op& op, const Call& call, const BoundArrays& bounds,
                                 int most_bits = 4096);

}  // namespace opbound
