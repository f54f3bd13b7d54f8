// Calls of ops with inputs that break kernels, and kernels of the same contract that are not ours.
#pragma once

#include <algorithm>
#include <string>

#include "ops/gelu.hpp"
#include "ops/instantiate/kernel.hpp"
#include "ops/softmax.hpp"
#include "suites/run.hpp"
#include "tests/attack_perturbed.hpp"

namespace opbound::attack {

/// The op's algorithm by somebody else: functions moved, sums in the team's order. The passes that
/// KernelOf runs, in its order.
template <class Op, class Team>
struct ForeignKernel {
  Team team;

  void run(const Call& c) const {
    if (!c.forward.empty()) run_pass<typename Op::forward>(c, c.forward);
    if constexpr (detail::HasBackward<Op>) {
      if (!c.backward.empty()) run_pass<typename Op::backward>(c, c.backward);
    }
  }

 private:
  template <class Pass>
  void run_pass(const Call& c, std::span<const TensorView> views) const {
    detail::with_compute_type(c.compute, [&]<class T>() {
      const PlainIo<Perturbed<T>> io{bind(views)};
      const Problem<Op> problem = detail::problem_of<Op>(c, c.variant);
      detail::for_each_part<Pass>([&]<class Part>() {
        for (std::int64_t b = Part::blocks(c.sizes); b-- > 0;)
          Part::template kernel<Perturbed<T>>(team, problem, io, b);
      });
    });
  }
};

template <class Team>
void run_foreign(const Op& op, const Call& call, const Team& team) {
  if (op.name == "gelu") ForeignKernel<gelu, Team>{team}.run(call);
  if (op.name == "softmax") ForeignKernel<softmax, Team>{team}.run(call);
}

inline CaseSpec case_for(std::string_view op, Direction direction, std::string_view precision,
                         Sizes sizes) {
  CaseSpec spec;
  spec.op = find_op(op);
  spec.direction = direction;
  spec.attributes = spec.op->default_attributes;
  spec.precision = precision_named(precision).value();
  spec.sizes = sizes;
  return spec;
}

inline constexpr int value_families = 8;

/// A value that the storage format holds, from the places where activations break.
inline double adversarial_value(Random& random, const Format& f, int family) {
  const double sign = chance(random, 2) ? 1 : -1;
  switch (family) {
    case 0:  // tails: exp, erfc and tanh underflow, 1 + erf cancels
      return -4 - 12 * share(random);
    case 1:  // where GELU's derivative vanishes
      return -0.751791524693564457 * (1 + sign * std::ldexp(share(random), -whole(random, 0, 23)));
    case 2:  // subnormal
      return sign * f.smallest_subnormal() * whole(random, 0, 1 << std::min(f.digits, 20));
    case 3:  // near overflow
      return sign * f.largest() * (1 - std::ldexp(share(random), -whole(random, 0, 10)));
    case 4:
      return sign *
             std::ldexp(1 + share(random), whole(random, f.exponent_min, f.exponent_max - 1));
    case 5:
      return whole(random, -8, 8) / 4.0;
    default:
      return 8 * share(random) - 4;
  }
}

inline std::vector<double> adversarial_block(Random& random, const Format& f, std::int64_t n) {
  std::vector<double> x(static_cast<std::size_t>(n));
  const int family = whole(random, 0, value_families - 1);
  for (double& v : x) v = adversarial_value(random, f, family);
  return x;
}

enum class RowFamily { values, offset, constant, masked, rising, near_overflow, subnormal, count };

/// A row of logits, or of gradients.
inline std::vector<double> adversarial_row(Random& random, const Format& f, std::int64_t n) {
  std::vector<double> x(static_cast<std::size_t>(n));
  const auto family = static_cast<RowFamily>(whole(random, 0, 6));
  const double offset =
      (chance(random, 2) ? 1 : -1) * std::pow(10, (f.digits / 4.0) * share(random));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double uniform = share(random);
    switch (family) {
      case RowFamily::offset:
        x[i] = offset + uniform;
        break;
      case RowFamily::constant:
        x[i] = offset;
        break;
      case RowFamily::masked:
        x[i] = i > 0 && chance(random, 2) ? -HUGE_VAL : 20 * uniform;
        break;
      case RowFamily::rising:
        x[i] = static_cast<double>(i) / 4;
        break;
      case RowFamily::near_overflow:
        x[i] = f.largest() * (chance(random, 2) ? uniform : -uniform);
        break;
      case RowFamily::subnormal:
        x[i] = f.smallest_subnormal() * whole(random, -9, 9);
        break;
      default:
        x[i] = adversarial_value(random, f, whole(random, 0, value_families - 1)) *
               (chance(random, 2) ? 1 : 0.01);
    }
  }
  return x;
}

/// Every tensor that a case reads and no pass writes.
inline Tensors adversarial_inputs(const CaseSpec& spec, Random& random) {
  Tensors inputs;
  const bool is_row = spec.op->name == "softmax";
  const Shape shape = is_row ? Shape{spec.sizes[0], spec.sizes[1]} : Shape{spec.sizes[0]};
  const auto fill = [&](const TensorSpec& tensor) {
    const Format f = format_of(tensor_element(spec, tensor));
    Tensor& t = inputs.insert_or_assign(std::string(tensor.name), Tensor(f, shape)).first->second;
    // a block of elements is of one family: few blocks then need the slow reference
    const std::int64_t block = is_row ? std::max<std::int64_t>(1, shape[1]) : team_width;
    for (std::int64_t i = 0; i < t.count(); i += block) {
      const std::vector<double> values =
          is_row ? adversarial_row(random, f, block) : adversarial_block(random, f, block);
      for (std::int64_t k = 0; k < std::min(block, t.count() - i); ++k) {
        const double v = values[static_cast<std::size_t>(k)];
        t.set(i + k, std::isinf(v) && tensor.name == "dy" ? 0 : v);
      }
    }
  };
  for (const TensorSpec& t : spec.op->forward.tensors)
    if (t.role == Role::in) fill(t);
  if (spec.direction == Direction::forward) return inputs;
  for (const TensorSpec& t : spec.op->backward->tensors)
    if (t.role == Role::in && !inputs.contains(t.name)) fill(t);
  return inputs;
}

}  // namespace opbound::attack
