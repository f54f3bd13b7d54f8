// Where a NaN or an infinity came from, before it is in every rank's sums.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "distributed/engine.hpp"

namespace opbound {

/// Where a number came from that is none.
struct NonFinite {
  std::int32_t rank = 0;
  std::string tensor;
  std::int64_t index = 0;  ///< in the tensor
  double value = 0;
};

/// "nan of rank 3, grad[17]"
std::string to_string(const NonFinite& origin);

/// The first NaN or infinity among all ranks' elements, by rank and index: before anything is added
/// to it or compared with it. Every process calls it, and every one has the answer.
std::optional<NonFinite> first_nonfinite(Engine& engine, const Buffers& given,
                                         const std::vector<TensorRange>& tensors);

}  // namespace opbound
