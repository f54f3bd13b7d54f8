// A matrix product's three sums as one: what is multiplied, and where the sum goes. Bodies for
// speed are written over this, once for d, da and db.
#pragma once

#include "ops/matmul.hpp"  // IWYU pragma: keep

namespace opbound {

/// d: rows of a by columns of b, over k.
struct matmul::forward::elements::form {
  OPBOUND_HD static Sizes extents(const Sizes& s) { return {s[0], s[1], s[2]}; }

  template <class T, class Io>
  OPBOUND_HD static T left(const Problem<matmul>& p, const Io& io, std::int64_t i, std::int64_t t) {
    return io.get(a, i * p.sizes[2] + t);
  }
  template <class T, class Io>
  OPBOUND_HD static T right(const Problem<matmul>& p, const Io& io, std::int64_t t,
                            std::int64_t j) {
    return io.get(b, t * p.sizes[1] + j);
  }
  template <class T, class Io>
  OPBOUND_HD static void finish(const Problem<matmul>& p, const Io& io, std::int64_t i,
                                std::int64_t j, T sum) {
    io.put(d, i * p.sizes[1] + j, finished<T>(p, io, i, j, sum));
  }
};

/// da: rows of dd by rows of b, over n.
struct matmul::backward::left::form {
  OPBOUND_HD static Sizes extents(const Sizes& s) { return {s[0], s[2], s[1]}; }

  template <class T, class Io>
  OPBOUND_HD static T left(const Problem<matmul>& p, const Io& io, std::int64_t i, std::int64_t j) {
    return upstream<T>(p, io, i, j);
  }
  template <class T, class Io>
  OPBOUND_HD static T right(const Problem<matmul>& p, const Io& io, std::int64_t j,
                            std::int64_t t) {
    return io.get(b, t * p.sizes[1] + j);
  }
  template <class T, class Io>
  OPBOUND_HD static void finish(const Problem<matmul>& p, const Io& io, std::int64_t i,
                                std::int64_t t, T sum) {
    io.put(da, i * p.sizes[2] + t, finished<T>(p, io, i, sum));
  }
};

/// db: columns of a by columns of dd, over m.
struct matmul::backward::right::form {
  OPBOUND_HD static Sizes extents(const Sizes& s) { return {s[2], s[1], s[0]}; }

  template <class T, class Io>
  OPBOUND_HD static T left(const Problem<matmul>& p, const Io& io, std::int64_t t, std::int64_t i) {
    return io.get(a, i * p.sizes[2] + t);
  }
  template <class T, class Io>
  OPBOUND_HD static T right(const Problem<matmul>& p, const Io& io, std::int64_t i,
                            std::int64_t j) {
    return upstream<T>(p, io, i, j);
  }
  template <class T, class Io>
  OPBOUND_HD static void finish(const Problem<matmul>& p, const Io& io, std::int64_t t,
                                std::int64_t j, T sum) {
    io.put(db, t * p.sizes[1] + j, finished<T>(p, io, j, sum));
  }
};

}  // namespace opbound
