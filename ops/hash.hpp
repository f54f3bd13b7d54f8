// Hashes of tensors.
#pragma once

#include <cstdint>

#include "ops/tensor.hpp"

namespace opbound {

/// What element `index` with these bits adds to a tensor's hash: splitmix64 (Steele, Lea and Flood
/// 2014) of both, so that the sum, in whatever order, tells tensors apart.
OPBOUND_HD constexpr std::uint64_t element_hash(std::int64_t index, std::uint64_t bits) {
  const auto mix = [](std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  };
  return mix(bits + mix((static_cast<std::uint64_t>(index) + 1) * 0x9e3779b97f4a7c15ULL));
}

/// The bits of an element of a tensor, every NaN canonical.
OPBOUND_HD inline std::uint64_t canonical_bits(const TensorView& view, std::int64_t i) {
  return is_float(view.element)
             ? encode(format_of(view.element), view.at(i))
             : static_cast<std::uint64_t>(load_index(view.element, view.data, view.offset(i)));
}

}  // namespace opbound
