// What attention's definitions have in common. Kernels have a way of their own (row.hpp).
#pragma once

#include <limits>

#include "ops/attention.hpp"  // IWYU pragma: keep

namespace opbound::attention_detail {

/// The formula's parts, for query i of head h and key j.
template <class R>
struct Formula {
  const Problem<attention>& problem;
  std::int64_t heads = problem.sizes[0], kv_heads = problem.sizes[1], queries = problem.sizes[2],
               keys = problem.sizes[3], d = problem.sizes[4];
  R scale = problem.attributes.scale > 0 ? from<R>(problem.attributes.scale)
                                         : from<R>(1.0) / sqrt(from<R>(static_cast<double>(d)));

  /// Of element c of a query, of a key, and of the pair.
  OPBOUND_HD std::int64_t at_query(std::int64_t h, std::int64_t i, std::int64_t c) const {
    return (h * queries + i) * d + c;
  }
  OPBOUND_HD std::int64_t at_key(std::int64_t h, std::int64_t j, std::int64_t c) const {
    return (key_head(h) * keys + j) * d + c;
  }
  OPBOUND_HD std::int64_t at_pair(std::int64_t h, std::int64_t i, std::int64_t j) const {
    return (h * queries + i) * keys + j;
  }
  OPBOUND_HD std::int64_t key_head(std::int64_t h) const { return h * kv_heads / heads; }

  /// Does the sum over the keys of query i take in key j?
  template <class Io>
  OPBOUND_HD bool takes(const Io& io, int bias, int mask, std::int64_t i, std::int64_t j) const {
    switch (problem.attributes.mask) {
      case attention::Mask::causal:
        return problem.attributes.causal_from == attention::Causal::first_key
                   ? i >= j
                   : queries - i <= keys - j;
      case attention::Mask::additive: {
        const double added = io.exact(bias, i * keys + j);
        return !(added < std::numeric_limits<double>::lowest());
      }
      case attention::Mask::boolean:
        return io.index(mask, i * keys + j) == 1;
      default:
        return true;
    }
  }

  /// s_ij = scale q_i . k_j + bias_ij
  template <class Io>
  OPBOUND_HD R score(const Io& io, int q, int k, int bias, std::int64_t h, std::int64_t i,
                     std::int64_t j) const {
    R product = from<R>(0.0);
    for (std::int64_t c = 0; c < d; ++c)
      product = product + io.get(q, at_query(h, i, c)) * io.get(k, at_key(h, j, c));
    const R scaled = scale * product;
    return problem.attributes.mask == attention::Mask::additive
               ? scaled + io.get(bias, i * keys + j)
               : scaled;
  }
};

}  // namespace opbound::attention_detail
