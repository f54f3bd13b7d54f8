// Walking an op's passes and parts: shared by everything that is made once per op.
#pragma once

#include <cstdint>
#include <span>

#include "ops/describe.hpp"
#include "ops/io.hpp"
#include "ops/op.hpp"
#include "ops/parallel.hpp"

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

/// The place of the forward tensor with this name, or -1.
template <class Op>
int place_in_forward(std::string_view name) {
  for (std::size_t i = 0; i < Op::forward::tensors.size(); ++i)
    if (Op::forward::tensors[i].name == name) return static_cast<int>(i);
  return -1;
}

/// Elements that one block of a part computes, about.
template <class Part>
std::int64_t work_of(const Call& c, std::span<const TensorView> views, std::int64_t blocks) {
  std::int64_t outputs = 0;
  for (const int t : Part::outputs) outputs += views[static_cast<std::size_t>(t)].count();
  return blocks == 0 ? 0 : (outputs / blocks + 1) * (1 + Part::longest_sum(c.sizes) / 64);
}

/// Calls f.template operator()<T>() with the number type that a kernel computes in.
template <class F>
decltype(auto) with_compute_type(const Format& compute, F f) {
  switch (compute.kind) {
    case Kind::fp64:
      return f.template operator()<double>();
    case Kind::bf16:
      return f.template operator()<Rounded<bf16>>();
    case Kind::fp16:
      return f.template operator()<Rounded<fp16>>();
    default:
      require(compute.kind == Kind::fp32, "no kernel computes in this format");
      return f.template operator()<float>();
  }
}

}  // namespace opbound::detail
