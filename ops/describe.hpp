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
  in,       ///< a floating-point input
  index,    ///< integers below the size of a dimension: labels, token ids
  mask,     ///< booleans
  saved,    ///< what the forward pass wrote for the backward pass
  scratch,  ///< what one part leaves for a later one, or a block for itself; nobody judges it
  out       ///< judged by its bound; integers and booleans: exactly
};

inline constexpr int max_axes = 4;  ///< of a tensor
inline constexpr int max_dims = 8;  ///< of an op
inline constexpr int max_tensors = 16;
using Sizes = std::array<std::int64_t, max_dims>;

/// One tensor of a pass; its axes are dimensions of the op, by name.
struct TensorSpec {
  Role role;
  std::string_view name;
  std::array<std::string_view, max_axes> dims;
  /// What it is stored in: "storage", "compute", "output", a format, "int64", "boolean", or an
  /// attribute that names a format. Empty: a saved tensor and a gradient "dx" are stored as the
  /// forward pass's tensor of that name, inputs in the storage format, outputs in the output
  /// format, scratch in the compute format.
  std::string_view element{};
  std::string_view below{};  ///< the dimension that bounds an index tensor's integers
  /// What else the op gives a meaning in an index tensor: "size" (the dimension's size itself),
  /// "any" integer, or the value of the attribute of this name.
  std::string_view also{};
  bool may_be_left_out = false;  ///< a mask: nothing is true in one that is not given

  constexpr int rank() const {
    int r = 0;
    for (const auto d : dims) r += d.empty() ? 0 : 1;
    return r;
  }
  constexpr bool is_written() const { return role == Role::out || role == Role::scratch; }
  constexpr bool is_judged() const { return role == Role::out; }
  constexpr TensorSpec as(std::string_view stored) const {
    TensorSpec t = *this;
    t.element = stored;
    return t;
  }
  constexpr TensorSpec or_else(std::string_view other) const {
    TensorSpec t = *this;
    t.also = other;
    return t;
  }
  constexpr TensorSpec or_none() const {
    TensorSpec t = *this;
    t.may_be_left_out = true;
    return t;
  }
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
/// Integers from 0 to the size of dimension `below` - 1, and what or_else allows.
template <class... D>
constexpr TensorSpec index(std::string_view name, std::string_view below, D... dims) {
  TensorSpec t = detail::spec(Role::index, name, dims...).as("int64");
  t.below = below;
  return t;
}
template <class... D>
constexpr TensorSpec mask(std::string_view name, D... dims) {
  return detail::spec(Role::mask, name, dims...).as("boolean");
}
template <class... D>
constexpr TensorSpec saved(std::string_view name, D... dims) {
  return detail::spec(Role::saved, name, dims...);
}
template <class... D>
constexpr TensorSpec scratch(std::string_view name, D... dims) {
  return detail::spec(Role::scratch, name, dims...);
}
template <class... D>
constexpr TensorSpec out(std::string_view name, D... dims) {
  return detail::spec(Role::out, name, dims...);
}

/// One attribute: a member of the op's Attributes; an enumerated one lists its words in order; a
/// Format takes the name of one.
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

/// Is an attribute's number from `low` on, and finite?
constexpr bool is_from(double low, double x) { return x >= low && x - x == 0; }

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
