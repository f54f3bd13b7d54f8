// SwiGLU (Shazeer 2020, "GLU variants improve transformer"): y = silu(gate) up, silu(x) = x
// sigma(x), sigma the logistic function.
//
// Conditioning: x silu' / silu = 1 + x sigma(-x), which grows like |x| for x -> -infinity; the
// derivative has a zero at -1.2785. 1 / (1 + exp(-x)) is accurate wherever exp(-x) does not
// overflow, and loses the tail where it does; 1 - sigma cancels for large x.
#pragma once

#include "ops/blocks.hpp"
#include "ops/definition.hpp"
#include "ops/number.hpp"

namespace opbound {

struct swiglu {
  static constexpr std::string_view name = "swiglu";
  static constexpr std::string_view math =
      "y = silu(gate) up, silu(x) = x sigma(x), sigma(x) = 1 / (1 + exp(-x))";
  static constexpr std::array<std::string_view, 1> dims{"n"};

  struct Attributes {};
  static constexpr std::tuple<> attributes{};

  enum { stable, plain, rounded_gate, sigmoid_product };
  static constexpr std::array variants{
      Variant{"stable",
              "x / (1 + exp(-x)), for x < 0: x exp(x) / (1 + exp(x)); silu' = s + x s t, "
              "t = sigma(-x)"},
      Variant{"plain",
              "x / (1 + exp(-x)), whose exp overflows in the tail; silu' = s (1 + x (1 - "
              "s)), which cancels"},
      Variant{
          "rounded_gate",
          "as stable, with silu(gate), and dy up, stored as gate is before they are multiplied: "
          "two kernels in place of a fused one"},
      Variant{"sigmoid_product", "as plain, with x (1 / (1 + exp(-x)))"}};

  struct forward;
  struct backward;

 private:
  /// sigma(x) over the reals; the sign of an exact x picks the form that does not overflow.
  template <class R>
  OPBOUND_HD static R logistic(R x) {
    const R one = from<R>(1.0);
    if (!is_negative(x)) return one / (one + exp(-x));
    const R w = exp(x);
    return w / (one + w);
  }

  /// An intermediate result as the next step reads it.
  template <class T>
  OPBOUND_HD static T kept(int variant, const Format& stored, T x) {
    return variant == rounded_gate ? stored_in(stored, x) : x;
  }
};

struct swiglu::forward {
  enum { gate, up, y };
  static constexpr std::array tensors{in("gate", "n"), in("up", "n"), out("y", "n")};

  struct elements : elementwise_blocks<0> {
    static constexpr std::array<int, 1> outputs{y};

    template <class R, class Team, class Io>
    OPBOUND_HD static void define(const Team& team, const Problem<swiglu>& p, const Io& io,
                                  std::int64_t block) {
      each(team, p.sizes, block, [&](std::int64_t i) {
        const R x = io.get(gate, i);
        io.put(y, i, x * logistic(x) * io.get(up, i));
      });
    }

    template <class T, class Team, class Io>
    OPBOUND_HD static void kernel(const Team& team, const Problem<swiglu>& p, const Io& io,
                                  std::int64_t block) {
      each(team, p.sizes, block, [&](std::int64_t i) {
        const T activated = silu<T>(p.variant, io.get(gate, i));
        io.put(y, i, kept(p.variant, io.format(gate), activated) * io.get(up, i));
      });
    }

    template <class T>
    OPBOUND_HD static T silu(int variant, T x) {
      const T one = from<T>(1.0);
      if (variant == sigmoid_product) return x * (one / (one + exp(-x)));
      if (variant == plain || !takes_negative_form(x)) return x / (one + exp(-x));
      const T w = exp(x);
      return (x * w) / (one + w);
    }
  };
  using parts = Parts<elements>;
};

/// dgate = dy up silu'(gate), dup = dy silu(gate); silu' = s + x s sigma(-x).
struct swiglu::backward {
  enum { gate, up, dy, dgate, dup };
  static constexpr std::array tensors{in("gate", "n"), in("up", "n"), in("dy", "n"),
                                      out("dgate", "n"), out("dup", "n")};

  struct elements : elementwise_blocks<0> {
    static constexpr std::array<int, 2> outputs{dgate, dup};

    template <class R, class Team, class Io>
    OPBOUND_HD static void define(const Team& team, const Problem<swiglu>& p, const Io& io,
                                  std::int64_t block) {
      each(team, p.sizes, block, [&](std::int64_t i) {
        const R x = io.get(gate, i), g = io.get(dy, i), v = io.get(up, i);
        const R s = logistic(x);
        io.put(dgate, i, g * v * gauged_sum(s, x * s * logistic(-x)));
        io.put(dup, i, g * (x * s));
      });
    }

    template <class T, class Team, class Io>
    OPBOUND_HD static void kernel(const Team& team, const Problem<swiglu>& p, const Io& io,
                                  std::int64_t block) {
      each(team, p.sizes, block, [&](std::int64_t i) {
        const T x = io.get(gate, i), g = io.get(dy, i);
        const T activated = forward::elements::silu<T>(p.variant, x);
        const Format stored = io.format(gate);
        io.put(dgate, i, kept(p.variant, stored, g * io.get(up, i)) * derivative<T>(p.variant, x));
        io.put(dup, i, g * kept(p.variant, stored, activated));
      });
    }

    template <class T>
    OPBOUND_HD static T derivative(int variant, T x) {
      const T one = from<T>(1.0);
      if (variant == plain || variant == sigmoid_product) {
        const T s = one / (one + exp(-x));
        return s * (one + x * (one - s));
      }
      // w = exp(-|x|) <= 1: the larger of s and t is 1 / (1 + w), the smaller one w / (1 + w)
      const T w = exp(-abs(x));
      const T large = one / (one + w), small = w / (one + w);
      const T s = takes_negative_form(x) ? small : large;
      return s + x * (large * small);
    }
  };
  using parts = Parts<elements>;
};

}  // namespace opbound
