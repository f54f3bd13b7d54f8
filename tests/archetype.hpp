// A number type that can do what the concept Number asks for, and nothing else: a kernel that
// compiles over it uses no more than the concept promises.
#pragma once

#include "ops/number.hpp"

namespace opbound {

/// What the concept asks for, one by one.
enum class Ability {
  construct,
  add,
  subtract,
  multiply,
  divide,
  negate,
  fma,
  sqrt,
  exp,
  exp2,
  expm1,
  log,
  log1p,
  tanh,
  erf,
  erfc,
  sin,
  cos,
  rsqrt,
  abs,
  max,
  min,
  pivot,
  stored_in,
  is_negative,
  from_double,
  from_real,
  count
};

/// Has every ability but `Missing`; Ability::count takes nothing away.
template <Ability Missing>
struct Skeleton {
  Skeleton() requires(Missing != Ability::construct) = default;

#define OPBOUND_SKELETON_UNARY(name, ability) \
  friend Skeleton name(Skeleton) requires(Missing != Ability::ability) { return {}; }
#define OPBOUND_SKELETON_BINARY(name, ability) \
  friend Skeleton name(Skeleton, Skeleton) requires(Missing != Ability::ability) { return {}; }
  OPBOUND_SKELETON_BINARY(operator+, add)
  OPBOUND_SKELETON_BINARY(operator-, subtract)
  OPBOUND_SKELETON_BINARY(operator*, multiply)
  OPBOUND_SKELETON_BINARY(operator/, divide)
  OPBOUND_SKELETON_UNARY(operator-, negate)
  OPBOUND_SKELETON_UNARY(sqrt, sqrt)
  OPBOUND_SKELETON_UNARY(exp, exp)
  OPBOUND_SKELETON_UNARY(exp2, exp2)
  OPBOUND_SKELETON_UNARY(expm1, expm1)
  OPBOUND_SKELETON_UNARY(log, log)
  OPBOUND_SKELETON_UNARY(log1p, log1p)
  OPBOUND_SKELETON_UNARY(tanh, tanh)
  OPBOUND_SKELETON_UNARY(erf, erf)
  OPBOUND_SKELETON_UNARY(erfc, erfc)
  OPBOUND_SKELETON_UNARY(sin, sin)
  OPBOUND_SKELETON_UNARY(cos, cos)
  OPBOUND_SKELETON_UNARY(rsqrt, rsqrt)
  OPBOUND_SKELETON_UNARY(abs, abs)
  OPBOUND_SKELETON_BINARY(max, max)
  OPBOUND_SKELETON_BINARY(min, min)
  OPBOUND_SKELETON_UNARY(pivot, pivot)
#undef OPBOUND_SKELETON_UNARY
#undef OPBOUND_SKELETON_BINARY

  friend Skeleton fma(Skeleton, Skeleton, Skeleton) requires(Missing != Ability::fma) { return {}; }
  friend Skeleton stored_in(const Format&, Skeleton) requires(Missing != Ability::stored_in) {
    return {};
  }
  friend bool is_negative(Skeleton) requires(Missing != Ability::is_negative) { return false; }
};

template <Ability Missing>
struct Conversion<Skeleton<Missing>> {
  static Skeleton<Missing> from(double) requires(Missing != Ability::from_double) { return {}; }
  static Skeleton<Missing> from(Real) requires(Missing != Ability::from_real) { return {}; }
};

using Archetype = Skeleton<Ability::count>;

}  // namespace opbound
