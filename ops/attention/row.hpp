// One query row of attention as kernels take it: where its tensors begin, and which keys it sees.
#pragma once

#include <limits>

#include "ops/attention.hpp"  // IWYU pragma: keep

namespace opbound::attention_detail {

/// Query i of head h, and the elements at which its tensors begin.
struct Row {
  std::int64_t keys, d;
  std::int64_t query;      ///< in its head
  std::int64_t last_seen;  ///< by causality
  std::int64_t q;          ///< first element in q, o, dq
  std::int64_t kv;         ///< first element of its key head in k, v
  std::int64_t s;          ///< first element in heads x queries x keys
  std::int64_t row;        ///< in heads x queries

  OPBOUND_HD Row(const Problem<attention>& p, std::int64_t block) : row(block) {
    const Sizes& z = p.sizes;
    keys = z[3];
    d = z[4];
    const std::int64_t head = block / z[2];
    query = block % z[2];
    const bool from_last = p.attributes.causal_from == attention::Causal::last_key;
    last_seen = p.attributes.mask != attention::Mask::causal ? keys
                : from_last                                  ? query + keys - z[2]
                                                             : query;
    q = block * d;
    kv = head / (z[0] / z[1]) * keys * d;
    s = block * keys;
  }

  /// Is key j seen? Only exact inputs decide.
  template <class Io>
  OPBOUND_HD bool sees(const Problem<attention>& p, const Io& io, int bias, int mask,
                       std::int64_t j) const {
    if (p.attributes.mask == attention::Mask::boolean) return io.index(mask, query * keys + j) != 0;
    if (p.attributes.mask == attention::Mask::additive)
      return io.exact(bias, query * keys + j) != -std::numeric_limits<double>::infinity();
    return j <= last_seen;
  }
};

/// scale, or 1 / sqrt(d).
template <class T>
OPBOUND_HD T scale_of(const Problem<attention>& p) {
  if (p.attributes.scale != 0) return from<T>(p.attributes.scale);
  return from<T>(1.0) / sqrt(from<T>(static_cast<double>(p.sizes[4])));
}

}  // namespace opbound::attention_detail
