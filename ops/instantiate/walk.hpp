// Walking an op's passes and parts: shared by everything that is made once per op.
#pragma once

#include <cstdint>
#include <span>

#include "ops/describe.hpp"
#include "ops/io.hpp"
#include "ops/op.hpp"
#include "ops/parallel.hpp"
#include "ops/precision.hpp"

namespace opbound::detail {

template <class Op>
concept HasBackward = requires {
  Op::backward::tensors;
};

/// Calls f.template operator()<Part>() for each part of a pass, in order.
template <class Pass, class F>
void for_each_part(F f) {
  []<class... P>(Parts<P...>, F& each) { (each.template operator()<P>(), ...); }(
      typename Pass::parts{}, f);
}

template <class Op>
Problem<Op> problem_of(const Call& c, int variant) {
  return {from_bytes<typename Op::Attributes>(c.attributes), variant, c.sizes};
}

/// Does the backward pass read anything that the forward pass computed?
template <class Op>
constexpr bool reads_saved_tensors() {
  for (const TensorSpec& t : Op::backward::tensors)
    if (t.role == Role::saved) return true;
  return false;
}

/// May a kernel of this variant have these attributes? Any may, unless the op says otherwise.
template <class Op>
constexpr bool allows(const typename Op::Attributes& a, int variant) {
  if constexpr (requires { Op::allows(a, variant); }) return Op::allows(a, variant);
  return true;
}

/// Is this variant one of the precision? Any is, unless the op says otherwise.
template <class Op>
constexpr bool fits(const Precision& p, int variant) {
  if constexpr (requires { Op::fits(p, variant); }) return Op::fits(p, variant);
  return true;
}

/// The place of the forward tensor with this name, or -1.
template <class Op>
int place_in_forward(std::string_view name) {
  for (std::size_t i = 0; i < Op::forward::tensors.size(); ++i)
    if (Op::forward::tensors[i].name == name) return static_cast<int>(i);
  return -1;
}

/// The place of a dimension in the op's list, or -1.
template <class Op>
constexpr int dim_named(std::string_view name) {
  for (std::size_t i = 0; i < Op::dims.size(); ++i)
    if (Op::dims[i] == name) return static_cast<int>(i);
  return -1;
}

/// Has every output of a part all the dimensions that its blocks run along?
template <class Op, class Pass, class Part>
constexpr bool outputs_have_places() {
  for (const int t : Part::outputs) {
    const TensorSpec spec = Pass::tensors[static_cast<std::size_t>(t)];
    for (const int dim : Part::along) {
      bool has_it = false;
      for (const auto name : spec.dims) has_it = has_it || dim_named<Op>(name) == dim;
      if (!has_it) return false;
    }
  }
  return true;
}

/// The block of a part that makes this element, row-major, of one of its outputs.
template <class Op, class Pass, class Part>
std::int64_t block_of(const Sizes& s, int tensor, std::int64_t element) {
  static_assert(outputs_have_places<Op, Pass, Part>());
  const TensorSpec& spec = Pass::tensors[static_cast<std::size_t>(tensor)];
  Sizes at{};
  for (auto axis = static_cast<std::size_t>(spec.rank()); axis-- > 0;) {
    const auto dim = static_cast<std::size_t>(dim_named<Op>(spec.dims[axis]));
    at[dim] = element % s[dim];
    element /= s[dim];
  }
  std::int64_t place = 0;
  for (const int dim : Part::along) {
    const auto d = static_cast<std::size_t>(dim);
    place = place * s[d] + at[d];
  }
  return place / Part::places_each;
}

/// Terms in the longest reduction of a part.
template <class Part>
std::int64_t longest_sum(const Sizes& s) {
  if constexpr (requires { Part::longest_sum(s); }) return Part::longest_sum(s);
  return 1;
}

/// Elements that one block of a part computes, about.
template <class Part>
std::int64_t work_of(const Call& c, std::span<const TensorView> views, std::int64_t blocks) {
  std::int64_t outputs = 0;
  for (const int t : Part::outputs) outputs += views[static_cast<std::size_t>(t)].count();
  return blocks == 0 ? 0 : (outputs / blocks + 1) * (1 + longest_sum<Part>(c.sizes) / 64);
}

/// Calls f.template operator()<T>() with the number type that a kernel computes in.
template <std::size_t I = 0, class F>
decltype(auto) with_compute_type(const Format& compute, F f) {
  constexpr Format format = compute_formats[I];
  if constexpr (I + 1 < compute_formats.size()) {
    if (compute != format) return with_compute_type<I + 1>(compute, f);
  }
  require(compute == format, "no kernel computes in this format");
  return f.template operator()<NumberOf<format>>();
}

}  // namespace opbound::detail
