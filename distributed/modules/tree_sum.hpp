// The sum of several ranks' elements in the order of the balanced tree, on a device; and, where the
// ranks' memory is within reach of one another, all of an all-reduce in one kernel.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "ops/tensor.hpp"

namespace opbound {

/// As many ranks as may read and write one another's memory: a machine's.
inline constexpr int most_near_ranks = 8;

/// Where ranks tell one another that they have come: an array of these words for each rank, zeros
/// at first, which all others can write. A block of a kernel waits for the same block of all
/// others.
struct Meeting {
  static constexpr int most_blocks = 512;
  static constexpr int epochs = most_blocks * most_near_ranks;  ///< calls so far, of each block
  static constexpr int failed = epochs + most_blocks;           ///< 1: somebody did not come
  static constexpr int words = failed + 1;

  std::array<std::uint32_t*, most_near_ranks> of_ranks{};
  int ranks = 0, rank = 0;        ///< of 0 ranks: nobody is waited for
  std::uint64_t patience_ns = 0;  ///< a rank is not waited for any longer
};

/// target[i] = the tree's sum of terms[0][i], terms[1][i], ..., for i in [0, count). Every node is
/// rounded to `compute`, then to `wire`; a mean is divided at the root in between. As Reducer does
/// it (program.hpp), bit for bit.
struct TreeSum {
  Element wire = Element::fp32, compute = Element::fp32;
  double divisor = 0;  ///< 0: the sum is not divided
  std::int64_t count = 0;
  int term_count = 1;                                ///< a power of two
  std::array<const void*, most_near_ranks> terms{};  ///< of that many at the most; or
  const void* staged = nullptr;                      ///< term r is r * stride bytes behind this,
  std::int64_t stride = 0;
  int own_term = 0;                              ///< but for this one,
  const void* own = nullptr;                     ///< which is here
  std::array<void*, most_near_ranks> targets{};  ///< all of them get the sum
  int target_count = 1;
  Meeting meeting{};  ///< before anything is read, and after all is written
  int blocks = 0;     ///< the same for all ranks that meet; 0: nobody meets
};

/// Starts it; the error of the launch.
cudaError_t start_tree_sum(const TreeSum& sum, cudaStream_t stream);

/// Is there a kernel for sums that travel in `wire` and are made in `compute`?
bool has_tree_sum(Element wire, Element compute);

}  // namespace opbound
