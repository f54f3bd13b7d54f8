// One op's entry in the table of all ops.
#pragma once

#include "ops/instantiate/walk.hpp"
#include "ops/op.hpp"

namespace opbound {

// Defined once per op, in sources that CMake makes from the templates beside this file.
template <class Op>
struct KernelOf {
  static void run(const Call& c);
  static bool run_along(const Call& c, const SumTree& tree, Products products);
};
template <class Op>
struct BoundOf {
  static BoundArrays run(const Call& c, const Contract& contract, int variant);
};
template <class Op>
struct ReferenceOf {
  static void run_dd(const Call& c, ReferenceArrays& to);
  static void run_mpfr(const Call& c, int bits, const BlockChoice& chosen, ReferenceArrays& to);
  static void run_without_rounding(const Call& c, int bits, const BlockChoice& chosen,
                                   ReferenceArrays& to);
};
template <class Op>
struct DeviceOf {
  static void run(const Call& c);
  static void bound(const Call& c, std::span<const DeviceBound> to);
  static void reference(const Call& c, std::span<const DeviceReference> to);
  static std::optional<QuickCheck> quick_check(const Call& c, std::uint64_t seed);
  static bool prove(const Call& c, std::span<const DeviceBound> bound,
                    std::span<const DeviceReference> reference);
};

template <class Op>
struct SweepOf {
  static bool run(const Sweep& sweep, int output, std::int64_t count, std::int64_t first,
                  std::int64_t last, const TallyResult& to);
};
template <class Op>
struct DeviceSweepOf {
  static bool run(const Sweep& sweep, int output, std::int64_t count, std::int64_t first,
                  std::int64_t last, const TallyResult& to);
};

template <class O, class Pass>
PassInfo pass_info() {
  static_assert(Pass::tensors.size() <= max_tensors);
  PassInfo info{Pass::tensors, {}};
  detail::for_each_part<Pass>([&]<class Part>() {
    info.parts.push_back({{Part::outputs.begin(), Part::outputs.end()},
                          [](const Sizes& s) { return Part::blocks(s); },
                          [](const Sizes& s, int t, std::int64_t i) {
                            return detail::block_of<O, Pass, Part>(s, t, i);
                          },
                          [](const Sizes& s) { return detail::longest_sum<Part>(s); }});
  });
  return info;
}

template <class O>
Op describe() {
  static_assert(O::dims.size() <= max_dims);
  using A = typename O::Attributes;
  Op op{};
  op.name = O::name;
  op.math = O::math;
  op.dims = O::dims;
  op.variants = O::variants;
  op.attributes = attribute_specs<O>();
  op.default_attributes = to_bytes(A{});
  op.allows = [](const AttributeBytes& a, int v) { return detail::allows<O>(from_bytes<A>(a), v); };
  op.fits = [](const Precision& p, int v) { return detail::fits<O>(p, v); };
  op.is_assumed = [](const Precision& p, int v) {
    if constexpr (requires { O::is_assumed(p, v); }) return O::is_assumed(p, v);
    return detail::fits<O>(p, v);
  };
  op.has_tensor = [](const AttributeBytes& a, std::string_view tensor) {
    if constexpr (requires { O::has_tensor(A{}, tensor); })
      return O::has_tensor(from_bytes<A>(a), tensor);
    return true;
  };
  op.refuses = [](const AttributeBytes& a, const Sizes& s) -> std::string_view {
    if constexpr (requires { O::refuses(A{}, s); }) return O::refuses(from_bytes<A>(a), s);
    return {};
  };
  op.refuses_storage = [](const Format& f) -> std::string_view {
    if constexpr (requires { O::refuses_storage(f); }) return O::refuses_storage(f);
    return {};
  };
  op.forward = pass_info<O, typename O::forward>();
  if constexpr (detail::HasBackward<O>) op.backward = pass_info<O, typename O::backward>();
  op.run = &KernelOf<O>::run;
  op.run_along = &KernelOf<O>::run_along;
  op.bound = &BoundOf<O>::run;
  op.reference_dd = &ReferenceOf<O>::run_dd;
  op.reference_mpfr = &ReferenceOf<O>::run_mpfr;
  op.without_rounding = &ReferenceOf<O>::run_without_rounding;
  op.sweep = &SweepOf<O>::run;
#ifdef OPBOUND_WITH_CUDA
  op.sweep_on_device = &DeviceSweepOf<O>::run;
  op.run_on_device = &DeviceOf<O>::run;
  op.bound_on_device = &DeviceOf<O>::bound;
  op.reference_on_device = &DeviceOf<O>::reference;
  op.prove_on_device = &DeviceOf<O>::prove;
  op.quick_check_on_device = &DeviceOf<O>::quick_check;
#endif
  return op;
}

}  // namespace opbound
