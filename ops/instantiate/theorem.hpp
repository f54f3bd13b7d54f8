// How a part's own theorem replaces running bounds that it is sharper than, on the host and on the
// device.
#pragma once

#include <atomic>

#include "bounds/growth.hpp"
#include "ops/instantiate/walk.hpp"
#include "ops/precision.hpp"

namespace opbound {

/// How a theorem reads exact inputs and offers its bounds.
struct TheoremIo {
  Bindings tensors;
  double* radius[max_tensors] = {};             ///< of the pass's outputs, in place
  std::uint64_t* by_theorem[max_tensors] = {};  ///< counts the radii that were replaced

  OPBOUND_HD double get(int t, std::int64_t i) const { return tensors.load_at(t, i); }
  OPBOUND_HD std::int64_t index(int t, std::int64_t i) const { return tensors.index_at(t, i); }
  /// What is known so far of an output of this block.
  OPBOUND_HD double bound(int t, std::int64_t i) const { return radius[t][i]; }
  OPBOUND_HD void limit(int t, std::int64_t i, double bound) const {
    if (!(bound < radius[t][i])) return;
    radius[t][i] = bound;
#ifdef __CUDA_ARCH__
    static_assert(sizeof(std::uint64_t) == sizeof(unsigned long long));
    atomicAdd(reinterpret_cast<unsigned long long*>(by_theorem[t]), 1ULL);
#else
    std::atomic_ref(*by_theorem[t]).fetch_add(1, std::memory_order_relaxed);
#endif
  }
};

namespace detail {

template <class Part, class Op>
concept HasTheorem = requires(Problem<Op> p, TheoremIo io, Arithmetic a) {
  Part::theorem(p, io, a, std::int64_t{0});
};

/// A theorem speaks of exact inputs: the compute format must hold the stored ones.
template <class Pass>
bool loads_exactly(std::span<const TensorView> views, const Format& compute) {
  for (std::size_t t = 0; t < views.size(); ++t) {
    const Element e = views[t].element;
    if (!Pass::tensors[t].is_written() && is_float(e) && store_rounds(format_of(e), compute))
      return false;
  }
  return true;
}

/// What a theorem of a part may assume of a kernel over T under this contract.
template <class T, class K>
Arithmetic arithmetic_of(const Contract& contract) {
  Arithmetic a{Facts<T>::u, Facts<T>::format.eta(), contract.functions, K::foreign};
  if (!K::foreign && Facts<T>::format == fp64)
    for (std::size_t f = 0; f < a.functions.ulp.size(); ++f)
      a.functions.ulp[f] = fp64_error_ulp(static_cast<Function>(f));
  return a;
}

}  // namespace detail
}  // namespace opbound
