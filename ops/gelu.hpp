// GELU (Hendrycks and Gimpel 2016): y = x Phi(x), and its tanh approximation.
//
// Conditioning (bounds/README.md 1.1): |1 + x phi / Phi| grows like x^2 for x -> -infinity; the
// derivative has a zero at -0.7518. A kernel that forms 1 + erf or 1 + tanh loses the tail to
// cancellation: its bound says so.
#pragma once

#include "ops/blocks.hpp"
#include "ops/definition.hpp"
#include "ops/number.hpp"
#include "reference/constants.hpp"

namespace opbound {

struct gelu {
  static constexpr std::string_view name = "gelu";
  static constexpr std::string_view math =
      "y = x Phi(x), Phi the normal distribution function; approximate = tanh: "
      "y = x sigma(2t), t = sqrt(2/pi) (x + 0.044715 x^3)";
  static constexpr std::array<std::string_view, 1> dims{"n"};

  enum class Approximate { none, tanh };
  struct Attributes {
    Approximate approximate = Approximate::none;
  };
  static constexpr auto attributes =
      std::tuple{choice("approximate", &Attributes::approximate, "none", "tanh")};

  enum { erfc_form, one_plus_erf, sigmoid, one_plus_tanh };
  static constexpr std::array variants{
      Variant{"erfc", "(x/2) erfc(-x/sqrt 2)"},
      Variant{"one_plus_erf", "(x/2) (1 + erf(x/sqrt 2)), which cancels for x < 0"},
      Variant{"sigmoid", "x / (1 + exp(-2t)), for x < 0: x exp(2t) / (1 + exp(2t))"},
      Variant{"one_plus_tanh", "(x/2) (1 + tanh t), which cancels for x < 0"}};
  static constexpr bool allows(const Attributes& a, int variant) {
    return (a.approximate == Approximate::tanh) == (variant == sigmoid || variant == one_plus_tanh);
  }

  struct forward;
  struct backward;

 private:
  // ---- definition: the textbook formulas

  /// Phi(x), or sigma(2t) for the approximation; the sign of an exact x picks the form that does
  /// not cancel.
  template <class R>
  OPBOUND_HD static R gate(const Attributes& a, R x) {
    if (a.approximate == Approximate::none) return from<R>(0.5) * erfc(-(x * sqrt(from<R>(0.5))));
    const R two_t = twice_tanh_argument(x);
    const R one = from<R>(1.0);
    if (!is_negative(x)) return one / (one + exp(-two_t));
    const R w = exp(two_t);
    return w / (one + w);
  }

  /// 2t = sqrt(8/pi) (x + 0.044715 x^3)
  template <class R>
  OPBOUND_HD static R twice_tanh_argument(R x) {
    const R cubic = from<R>(44715.0) / from<R>(1e6);
    return sqrt(from<R>(8.0) / pi<R>()) * (x + cubic * (x * x * x));
  }

  // ---- kernel

  /// Beyond |x| = 40 every exponential below is under 2^-1100, less than any format's eta: clamping
  /// keeps x^2 and x^3 from overflowing in fp16 and changes nothing else.
  template <class T>
  OPBOUND_HD static T clamped(T x) {
    return min(max(x, from<T>(-40.0)), from<T>(40.0));
  }

  /// t = sqrt(2/pi) x (1 + 0.044715 x^2)
  template <class T>
  OPBOUND_HD static T tanh_argument(T x) {
    const T one = from<T>(1.0);
    return constant<T>(sqrt_two_over_pi) * (x * (one + constant<T>(gelu_cubic) * (x * x)));
  }
};

struct gelu::forward {
  enum { x, y };
  static constexpr std::array tensors{in("x", "n"), out("y", "n")};

  struct elements : elementwise_blocks<0> {
    static constexpr std::array<int, 1> outputs{y};

    template <class R, class Team, class Io>
    OPBOUND_HD static void define(const Team& team, const Problem<gelu>& p, const Io& io,
                                  std::int64_t block) {
      each(team, p.sizes, block, [&](std::int64_t i) {
        const R v = io.get(x, i);
        io.put(y, i, v * gate(p.attributes, v));
      });
    }

    template <class T, class Team, class Io>
    OPBOUND_HD static void kernel(const Team& team, const Problem<gelu>& p, const Io& io,
                                  std::int64_t block) {
      each(team, p.sizes, block,
           [&](std::int64_t i) { io.put(y, i, value<T>(p.variant, io.get(x, i))); });
    }

    template <class T>
    OPBOUND_HD static T value(int variant, T v) {
      const T half = from<T>(0.5), one = from<T>(1.0), two = from<T>(2.0);
      if (variant == erfc_form) return (half * v) * erfc(-(v * constant<T>(sqrt_half)));
      if (variant == one_plus_erf) return (half * v) * (one + erf(v * constant<T>(sqrt_half)));
      const T t = tanh_argument(clamped(v));
      if (variant == one_plus_tanh) return (half * v) * (one + tanh(t));
      if (!takes_negative_form(v)) return v / (one + exp(-(two * t)));
      const T w = exp(two * t);
      return (v * w) / (one + w);
    }
  };
  using parts = Parts<elements>;
};

struct gelu::backward {
  enum { x, dy, dx };
  static constexpr std::array tensors{in("x", "n"), in("dy", "n"), out("dx", "n")};

  struct elements : elementwise_blocks<0> {
    static constexpr std::array<int, 1> outputs{dx};

    /// dx = dy (Phi(x) + x phi(x)); tanh: dx = dy (s + 2 x s (1 - s) t'), s = sigma(2t), 1 - s =
    /// sigma(-2t).
    template <class R, class Team, class Io>
    OPBOUND_HD static void define(const Team& team, const Problem<gelu>& p, const Io& io,
                                  std::int64_t block) {
      each(team, p.sizes, block, [&](std::int64_t i) {
        const R v = io.get(x, i), g = io.get(dy, i);
        const R s = gate(p.attributes, v);
        io.put(dx, i, g * gauged_sum(s, v * gate_derivative(p.attributes, v, s)));
      });
    }

    /// Phi' = phi(x) = exp(-x^2/2) / sqrt(2 pi); sigma(2t)' = 2 s (1 - s) t', t' = sqrt(2/pi) (1 +
    /// 3 c x^2).
    template <class R>
    OPBOUND_HD static R gate_derivative(const Attributes& a, R v, R s) {
      const R two = from<R>(2.0);
      if (a.approximate == Approximate::none) return exp(-(v * v / two)) / sqrt(two * pi<R>());
      const R cubic = from<R>(3.0 * 44715.0) / from<R>(1e6);
      return two * s * gate(a, -v) * sqrt(two / pi<R>()) * (from<R>(1.0) + cubic * (v * v));
    }

    template <class T, class Team, class Io>
    OPBOUND_HD static void kernel(const Team& team, const Problem<gelu>& p, const Io& io,
                                  std::int64_t block) {
      each(team, p.sizes, block, [&](std::int64_t i) {
        io.put(dx, i, io.get(dy, i) * derivative<T>(p.variant, io.get(x, i)));
      });
    }

    template <class T>
    OPBOUND_HD static T derivative(int variant, T v) {
      if (variant == erfc_form || variant == one_plus_erf) return erf_derivative(variant, v);
      const T half = from<T>(0.5), one = from<T>(1.0), two = from<T>(2.0), c = clamped(v);
      const T t = tanh_argument(c);
      const T inner = constant<T>(sqrt_two_over_pi) *
                      (one + (from<T>(3.0) * constant<T>(gelu_cubic)) * (c * c));
      if (variant == one_plus_tanh) {
        const T h = tanh(t);
        return half * (one + h) + (half * v) * ((one - h * h) * inner);
      }
      // w = exp(-2|t|) <= 1: the larger of s and 1 - s is 1 / (1 + w), the smaller one w / (1 + w)
      const T w = exp(-(two * abs(t)));
      const T large = one / (one + w), small = w / (one + w);
      const T s = takes_negative_form(v) ? small : large;
      return s + two * (v * ((large * small) * inner));
    }

    template <class T>
    OPBOUND_HD static T erf_derivative(int variant, T v) {
      const T half = from<T>(0.5), c = clamped(v), u = v * constant<T>(sqrt_half);
      const T cdf = variant == erfc_form ? half * erfc(-u) : half * (from<T>(1.0) + erf(u));
      const T density = constant<T>(one_over_sqrt_two_pi) * exp(-(half * (c * c)));
      return cdf + v * density;
    }
  };
  using parts = Parts<elements>;
};

}  // namespace opbound
