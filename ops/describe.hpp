// What an op's header says of itself as data, for generic code to walk: tensors, attributes,
// variants.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <tuple>

#include "ops/format.hpp"
#include "ops/portable.hpp"

namespace opbound {

enum class Role : std::uint8_t {
  in,     ///< a floating-point input
  index,  ///< integers below the size of an axis: labels, token ids
  mask,   ///< booleans
  state,  ///< read and written: moments, scales
  saved,  ///< what the forward pass wrote for the backward pass
  rng,    ///< seed and offset
  out
};

inline constexpr int max_dims = 4;
inline constexpr int max_tensors = 16;
using Sizes = std::array<std::int64_t, max_dims>;

/// One tensor of a pass; its axes are dimensions of the op, by name.
struct TensorSpec {
  Role role;
  std::string_view name;
  std::array<std::string_view, max_dims> dims;

  constexpr int rank() const {
    int r = 0;
    for (const auto d : dims) r += d.empty() ? 0 : 1;
    return r;
  }
  constexpr bool is_written() const { return role == Role::out || role == Role::state; }
};

namespace detail {
template <class... D>
constexpr TensorSpec spec(Role role, std::string_view name, D... dims) {
  return {role, name, {std::string_view(dims)...}};
}
}  // namespace detail

template <class... D>
constexpr TensorSpec in(std::string_view name, D... dims) {
  return detail::spec(Role::in, name, dims...);
}
template <class... D>
constexpr TensorSpec saved(std::string_view name, D... dims) {
  return detail::spec(Role::saved, name, dims...);
}
template <class... D>
constexpr TensorSpec out(std::string_view name, D... dims) {
  return detail::spec(Role::out, name, dims...);
}

/// One attribute: a member of the op's Attributes; an enumerated one lists its words in order.
template <class A, class M>
struct Field {
  std::string_view name;
  M A::*member;
  std::array<std::string_view, 4> words{};
};

template <class A, class M>
constexpr Field<A, M> field(std::string_view name, M A::*member) {
  return {name, member, {}};
}
template <class A, class M, class... W>
constexpr Field<A, M> choice(std::string_view name, M A::*member, W... words) {
  return {name, member, {std::string_view(words)...}};
}

/// One algorithm for the op. What is declared decides which bound judges a provider.
struct Variant {
  std::string_view name;
  std::string_view formula;
};

/// Everything but the tensors that decides what a kernel of `Op` computes.
template <class Op>
struct Problem {
  typename Op::Attributes attributes{};
  int variant = 0;
  Sizes sizes{};
};

/// A list of block families.
template <class... P>
struct Parts {};

}  // namespace opbound
