// What an AdamW kernel derives from its hyper-parameters before it touches a tensor.
#pragma once

#include <type_traits>

#include "bounds/tracked.hpp"
#include "ops/number.hpp"

namespace opbound::detail {

/// The hyper-parameters of one step as they are held, exact.
struct AdamwHyper {
  double lr, beta1, beta2, eps, weight_decay;
};

/// x^k, k >= 0, by repeated squaring.
template <class T>
OPBOUND_HD T whole_power(T x, std::int64_t k) {
  T result = from<T>(1.0);
  for (; k > 0; k /= 2) {
    if (k % 2 != 0) result = result * x;
    if (k > 1) x = x * x;
  }
  return result;
}

/// A constant that was derived in double, with its error, rounded once to T. Another kernel that
/// derives it as accurately, though otherwise, may round to a neighbour of ours.
template <class T, class D>
OPBOUND_HD T derived(const D& c) {
  if constexpr (std::is_same_v<T, D>) {
    return c;
  } else {
    T x = from<T>(to_double(c));
    if constexpr (requires { x.radius; }) x.radius = up(x.radius + c.radius);
    if constexpr (requires { x.spread = 1.0; }) {
      using Value = decltype(x.value);
      if (c.radius > 0) {
        const double once = Facts<Value>::u * x.size() * (1 + 4 * Facts<Value>::u);
        x.radius = up(x.radius + 2 * c.radius + once + 2 * Facts<Value>::format.eta());
        x.spread = 2 * x.radius;
      }
    }
    return x;
  }
}

/// The constants of all steps, over T; derived in `D`, which is T itself or Tracked<double>, a
/// double with its error.
template <class T, class D>
struct AdamwConstants {
  T lr, beta1, rest1, beta2, rest2, eps, weight_decay, kept;
  T correction1{}, correction2{};        ///< 1 - beta1^t, 1 - beta2^t
  T step_size{}, root_of_correction2{};  ///< lr / (1 - beta1^t), sqrt(1 - beta2^t)
  D held_lr, held_beta1, held_beta2, power1, power2;

  OPBOUND_HD AdamwConstants(const AdamwHyper& h, std::int64_t steps_before)
      : lr(from<T>(h.lr)),
        beta1(from<T>(h.beta1)),
        beta2(from<T>(h.beta2)),
        eps(from<T>(h.eps)),
        weight_decay(from<T>(h.weight_decay)),
        held_lr(from<D>(h.lr)),
        held_beta1(from<D>(h.beta1)),
        held_beta2(from<D>(h.beta2)),
        power1(whole_power(held_beta1, steps_before)),
        power2(whole_power(held_beta2, steps_before)) {
    const D one = from<D>(1.0);
    rest1 = derived<T>(one - held_beta1);
    rest2 = derived<T>(one - held_beta2);
    kept = derived<T>(one - held_lr * from<D>(h.weight_decay));
  }

  /// What the next step needs of beta^t: computed here, since every parameter needs the same.
  OPBOUND_HD void advance() {
    power1 = power1 * held_beta1;
    power2 = power2 * held_beta2;
    const D one = from<D>(1.0), exact1 = one - power1, exact2 = one - power2;
    correction1 = derived<T>(exact1);
    correction2 = derived<T>(exact2);
    step_size = derived<T>(held_lr / exact1);
    root_of_correction2 = derived<T>(sqrt(exact2));
  }
};

}  // namespace opbound::detail
