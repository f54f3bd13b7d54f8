// Error and bound against the number of ranks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "distributed/check.hpp"
#include "reports/table.hpp"

namespace opbound {

/// What an order makes of a sum over so many ranks. Errors and bounds are in units of u sum |x|, u
/// being that of the format partial sums are stored in: the bound is at most the height, as
/// bounds/README.md 5 says, and the largest of each element's stands here.
struct ScaleRow {
  std::int32_t ranks = 0;
  int order = 0;
  std::int64_t height = 0;  ///< additions on the longest path
  double error = 0, bound = 0;
  double ratio = 0;
  Verdict verdict = Verdict::within;
  std::int64_t messages = 0, ticks = 0;  ///< of a simulated run
};

/// 2, 4, 8, ... and `most` itself.
std::vector<std::int32_t> rank_counts(std::int32_t most);

/// Runs the case's all-reduce among simulated ranks and judges it; nothing where the order needs
/// another number of ranks. The record is the bound's.
struct Scaled {
  ScaleRow row;
  Record record;
};
std::optional<Scaled> scale(CollectiveSpec collective, std::int32_t ranks, std::uint64_t seed);

std::string scale_table(const std::vector<ScaleRow>& rows, const Terminal& terminal);

/// The smallest number of ranks, up to `most`, at which the sum of equal gradients is no number in
/// the case's precision; nothing where there is none.
std::optional<std::int32_t> first_overflow(CollectiveSpec collective, double gradient,
                                           std::int32_t most);

}  // namespace opbound
