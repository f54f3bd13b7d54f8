// How a block reads its inputs and writes its outputs, whatever number type it runs over.
//
// A kernel sees tensors by their place in the pass's list and elements by their row-major index:
//   io.get(x, i)          -> T
//   io.put(y, i, value)
//   io.index(labels, i), io.put_index(mask, i, k): integers and booleans, exact
//   io.is_finite(x, i), io.exact(x, i): an input as it is stored, so that a kernel may branch on it
//   io.format(x): what tensor x is stored in
// Loading rounds to the compute format where the storage format is wider; storing rounds to the
// tensor's format. Definitions may pass a gauge to put: the last sum with every term replaced by
// its magnitude.
#pragma once

#include "bounds/tracked.hpp"
#include "ops/definition.hpp"
#include "ops/describe.hpp"
#include "ops/number.hpp"
#include "ops/tensor.hpp"
#include "reference/exact.hpp"

namespace opbound {

/// Tensors of one pass, with what the inner loops need to know looked up once.
struct Bindings {
  TensorView view[max_tensors];
  bool contiguous[max_tensors] = {};
  int count = 0;

  OPBOUND_APART OPBOUND_HD double load_at(int t, std::int64_t i) const {
    return load(view[t].element, view[t].data, contiguous[t] ? i : view[t].offset(i));
  }
  OPBOUND_APART OPBOUND_HD void store_at(int t, std::int64_t i, double value) const {
    const Element e = view[t].element;
    store(e, view[t].data, contiguous[t] ? i : view[t].offset(i),
          is_float(e) ? round_to(format_of(e), value) : value);
  }
  OPBOUND_APART OPBOUND_HD void store_index_at(int t, std::int64_t i, std::int64_t value) const {
    store_index(view[t].element, view[t].data, contiguous[t] ? i : view[t].offset(i), value);
  }
  OPBOUND_HD Format format_at(int t) const { return format_of(view[t].element); }
  OPBOUND_APART OPBOUND_HD std::int64_t index_at(int t, std::int64_t i) const {
    return load_index(view[t].element, view[t].data, contiguous[t] ? i : view[t].offset(i));
  }
};

inline Bindings bind(std::span<const TensorView> views) {
  Bindings b;
  for (const TensorView& v : views) {
    b.contiguous[b.count] = v.is_contiguous();
    b.view[b.count++] = v;
  }
  return b;
}

/// A kernel run for its results.
template <class T>
struct PlainIo {
  Bindings tensors;

  OPBOUND_HD T get(int t, std::int64_t i) const { return from<T>(tensors.load_at(t, i)); }
  OPBOUND_HD std::int64_t index(int t, std::int64_t i) const { return tensors.index_at(t, i); }
  OPBOUND_HD bool is_finite(int t, std::int64_t i) const { return detail::is_finite(exact(t, i)); }
  OPBOUND_HD double exact(int t, std::int64_t i) const { return tensors.load_at(t, i); }
  OPBOUND_HD Format format(int t) const { return tensors.format_at(t); }
  OPBOUND_HD void put(int t, std::int64_t i, T value) const {
    tensors.store_at(t, i, to_double(value));
  }
  OPBOUND_HD void put_index(int t, std::int64_t i, std::int64_t value) const {
    tensors.store_index_at(t, i, value);
  }
};

/// Values and radii of one tensor, row-major; null where the tensor is exact.
struct TrackedArray {
  double* value = nullptr;
  double* radius = nullptr;
  double* spread = nullptr;
  bool is_scratch = false;  ///< read again as it was put; no result
};

/// A kernel run for its error bound. Outputs are kept before the store rounding.
template <class T, class K>
struct TrackedIo {
  Bindings tensors;
  TrackedArray tracked[max_tensors];

  OPBOUND_HD Tracked<T, K> get(int t, std::int64_t i) const {
    const TrackedArray& a = tracked[t];
    if (a.value == nullptr) return from<Tracked<T, K>>(tensors.load_at(t, i));
    auto x = from<Tracked<T, K>>(a.value[i]);  // rounded where the store is wider
    x.radius = x.radius == 0 ? a.radius[i] : detail::up(x.radius + a.radius[i]);
    if constexpr (K::foreign) x.spread = a.spread[i];
    if (!a.is_scratch && detail::is_beyond(x))  // a theorem's bound, no least magnitude
      return detail::not_finite<T, K>(x.value, false);
    return x;
  }
  OPBOUND_HD std::int64_t index(int t, std::int64_t i) const { return tensors.index_at(t, i); }
  OPBOUND_HD bool is_finite(int t, std::int64_t i) const { return detail::is_finite(exact(t, i)); }
  /// What an earlier pass or part computed is not exact.
  OPBOUND_HD double exact(int t, std::int64_t i) const {
    if (tracked[t].value != nullptr) detail::refuse_branch();
    return tensors.load_at(t, i);
  }
  OPBOUND_HD Format format(int t) const { return tensors.format_at(t); }
  OPBOUND_HD void put_index(int t, std::int64_t i, std::int64_t value) const {
    put(t, i, Tracked<T, K>(from<T>(static_cast<double>(value))));
  }
  OPBOUND_HD void put(int t, std::int64_t i, Tracked<T, K> x) const {
    const TrackedArray& a = tracked[t];
    const bool keeps = a.is_scratch && detail::is_beyond(x);
    a.value[i] = to_double(x);
    a.radius[i] = keeps ? x.radius : detail::claimed_radius(x);
    if constexpr (K::foreign) a.spread[i] = x.spread;
  }
};

/// A definition or a kernel run for its exact values.
template <class R>
struct ReferenceIo {
  Bindings tensors;
  const R* saved[max_tensors] = {};  ///< what an earlier pass or part left of a tensor, else null
  R* keep[max_tensors] = {};         ///< where this pass leaves it, else null
  Exact* exact_values[max_tensors] = {};  ///< what is reported, else null
  double* gauge[max_tensors] = {};

  OPBOUND_HD R get(int t, std::int64_t i) const {
    return saved[t] != nullptr ? saved[t][i] : from<R>(tensors.load_at(t, i));
  }
  OPBOUND_HD std::int64_t index(int t, std::int64_t i) const { return tensors.index_at(t, i); }
  OPBOUND_HD bool is_finite(int t, std::int64_t i) const { return detail::is_finite(exact(t, i)); }
  OPBOUND_HD double exact(int t, std::int64_t i) const {
    if (saved[t] != nullptr) detail::refuse_branch();
    return tensors.load_at(t, i);
  }
  OPBOUND_HD Format format(int t) const { return tensors.format_at(t); }
  OPBOUND_HD void put_index(int t, std::int64_t i, std::int64_t value) const {
    put(t, i, from<R>(static_cast<double>(value)));
  }
  OPBOUND_HD void put(int t, std::int64_t i, const R& value) const {
    put(t, i, value, magnitude(value));
  }
  OPBOUND_HD void put(int t, std::int64_t i, const GaugedSum<R>& sum) const {
    put(t, i, sum.value, sum.gauge);
  }
  OPBOUND_HD void put(int t, std::int64_t i, const R& value, double size) const {
    if (keep[t] != nullptr) keep[t][i] = value;
    if (exact_values[t] == nullptr) return;
    exact_values[t][i] = exact_of(value);
    gauge[t][i] = size;
  }
};

}  // namespace opbound
