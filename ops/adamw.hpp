// AdamW (Loshchilov and Hutter 2019) over a run of steps, the state carried from one to the next as
// it is stored.
//
// A step with found_inf passes the state through bit for bit and does not count for the bias
// corrections. In 16-bit states an update below half an ulp of w is lost (bounds/README.md 9.1):
// rounding stochastically keeps it in the mean.
#pragma once

#include "ops/adamw/constants.hpp"
#include "ops/blocks.hpp"
#include "ops/definition.hpp"
#include "ops/philox.hpp"

namespace opbound {

struct adamw {
  static constexpr std::string_view name = "adamw";
  static constexpr std::string_view math =
      "m' = beta1 m + (1 - beta1) g, v' = beta2 v + (1 - beta2) g^2, w' = w - lr (m' / (1 - "
      "beta1^t) / (sqrt(v' / (1 - beta2^t)) + eps) + weight_decay w); found_inf: all unchanged";
  static constexpr std::array<std::string_view, 2> dims{"steps", "n"};

  struct Attributes {
    double lr = 1e-3;
    double beta1 = 0.9;
    double beta2 = 0.999;
    double eps = 1e-8;
    double weight_decay = 0.01;
    std::int64_t step = 1;  ///< t of the first step that counts
    std::int64_t seed = 0;  ///< of stochastic rounding
    std::int64_t offset = 0;
    Format hyper_format = fp64;  ///< what the five numbers above are held in: rounded once
    Format state_format = fp32;  ///< of w, m and v
    bool low_copy = false;       ///< is there a copy of w in the output format?
  };
  static constexpr auto attributes = std::tuple{field("lr", &Attributes::lr),
                                                field("beta1", &Attributes::beta1),
                                                field("beta2", &Attributes::beta2),
                                                field("eps", &Attributes::eps),
                                                field("weight_decay", &Attributes::weight_decay),
                                                field("step", &Attributes::step),
                                                field("seed", &Attributes::seed),
                                                field("offset", &Attributes::offset),
                                                field("hyper_format", &Attributes::hyper_format),
                                                field("state_format", &Attributes::state_format),
                                                field("low_copy", &Attributes::low_copy)};

  enum { scaled_step, corrected_moments, all_in_compute, stochastic };
  static constexpr std::array variants{
      Variant{
          "scaled_step",
          "w (1 - lr weight_decay) - (lr / c1) (m / (sqrt(v) / sqrt(c2) + eps)), c = 1 - beta^t "
          "and all that comes of it in double"},
      Variant{"corrected_moments",
              "w - lr ((m / c1) / (sqrt(v / c2) + eps) + weight_decay w), c in double"},
      Variant{"all_in_compute", "scaled_step with every constant derived in the compute format"},
      Variant{"stochastic", "scaled_step, w stored with stochastic rounding"}};
  static constexpr std::string_view refuses(const Attributes& a, const Sizes&) {
    if (a.step < 1) return "a step of at least 1";
    if (!is_from(0, a.beta1) || !is_from(0, a.beta2) || a.beta1 >= 1 || a.beta2 >= 1)
      return "betas from 0 on, below 1";
    if (!is_from(0, a.eps)) return "eps of at least 0";
    return a.lr - a.lr == 0 && a.weight_decay - a.weight_decay == 0 ? "" : "finite numbers";
  }
  static constexpr bool has_tensor(const Attributes& a, std::string_view tensor) {
    return a.low_copy || tensor != "low_w";
  }

  OPBOUND_HD static detail::AdamwHyper hyper_of(const Attributes& a) {
    const auto held = [&](double x) { return round_to(a.hyper_format, x); };
    return {held(a.lr), held(a.beta1), held(a.beta2), held(a.eps), held(a.weight_decay)};
  }

  struct forward;
};

struct adamw::forward {
  enum { w, g, m, v, found_inf, next_w, next_m, next_v, low_w };
  static constexpr std::array tensors{in("w", "n").as("state_format"),
                                      in("g", "steps", "n"),
                                      in("m", "n").as("state_format"),
                                      in("v", "n").as("state_format"),
                                      mask("found_inf", "steps").or_none(),
                                      out("next_w", "steps", "n").as("state_format"),
                                      out("next_m", "steps", "n").as("state_format"),
                                      out("next_v", "steps", "n").as("state_format"),
                                      out("low_w", "steps", "n")};

  template <class T>
  struct State {
    T w, m, v;
  };

  /// Each parameter through all steps.
  struct parameters : elementwise_blocks<1> {
    static constexpr std::array<int, 4> outputs{next_w, next_m, next_v, low_w};

    /// x^k by squaring, from k's highest bit down; the kernel has a way of its own.
    template <class R>
    OPBOUND_HD static R power(const R& x, std::int64_t k) {
      R result = from<R>(1.0);
      for (int bit = 62; bit >= 0; --bit) {
        if (k >> bit == 0) continue;
        const bool is_first = k >> bit == 1;
        if (!is_first) result = result * result;
        if (k >> bit & 1) result = is_first ? x : result * x;
      }
      return result;
    }

    template <class R, class Team, class Io>
    OPBOUND_HD static void define(const Team& team, const Problem<adamw>& p, const Io& io,
                                  std::int64_t block) {
      const Attributes& a = p.attributes;
      const detail::AdamwHyper h = hyper_of(a);
      const R one = from<R>(1.0), lr = from<R>(h.lr), b1 = from<R>(h.beta1), b2 = from<R>(h.beta2);
      each(team, p.sizes, block, [&](std::int64_t i) {
        State<R> s{io.get(w, i), io.get(m, i), io.get(v, i)};
        std::int64_t t = a.step - 1;
        for (std::int64_t k = 0; k < p.sizes[0]; ++k) {
          const std::int64_t at = k * p.sizes[1] + i;
          GaugedSum<R> sum_w = gauged_sum(s.w), sum_m = gauged_sum(s.m);
          if (io.index(found_inf, k) == 0) {
            ++t;
            const R x = io.get(g, at);
            sum_m = gauged_sum(b1 * s.m, (one - b1) * x);
            s.m = sum_m.value;
            s.v = b2 * s.v + (one - b2) * (x * x);
            const R mean = s.m / (one - power(b1, t)), square = s.v / (one - power(b2, t));
            const R step = mean / (sqrt(square) + from<R>(h.eps));
            sum_w.add(-(lr * (step + from<R>(h.weight_decay) * s.w)));
            s.w = sum_w.value;
          }
          io.put(next_w, at, sum_w);
          io.put(next_m, at, sum_m);
          io.put(next_v, at, s.v);
          if (a.low_copy) io.put(low_w, at, sum_w);
        }
      });
    }

    template <class T, class Team, class Io>
    OPBOUND_HD static void kernel(const Team& team, const Problem<adamw>& p, const Io& io,
                                  std::int64_t block) {
      if (p.variant == all_in_compute)
        run_block<T, T>(team, p, io, block);
      else
        run_block<T, Tracked<double>>(team, p, io, block);
    }

    /// The constants of the first step that counts are the same for all parameters.
    template <class T, class D, class Team, class Io>
    OPBOUND_HD static void run_block(const Team& team, const Problem<adamw>& p, const Io& io,
                                     std::int64_t block) {
      detail::AdamwConstants<T, D> first(hyper_of(p.attributes), p.attributes.step - 1);
      first.advance();
      each(team, p.sizes, block, [&](std::int64_t i) { run<T>(p, io, i, first); });
    }

    /// All steps of one parameter.
    template <class T, class D, class Io>
    OPBOUND_HD static void run(const Problem<adamw>& p, const Io& io, std::int64_t i,
                               detail::AdamwConstants<T, D> c) {
      const Attributes& a = p.attributes;
      const Format& f = a.state_format;
      State<T> s{io.get(w, i), io.get(m, i), io.get(v, i)};
      bool counts = false;  // has a step counted?
      for (std::int64_t k = 0; k < p.sizes[0]; ++k) {
        const std::int64_t at = k * p.sizes[1] + i;
        State<T> next = s;
        if (io.index(found_inf, k) == 0) {
          if (counts) c.advance();
          counts = true;
          next = stepped(p.variant, c, s, io.get(g, at));
          if (p.variant == stochastic) {
            const auto word =
                philox_word(static_cast<std::uint64_t>(a.seed),
                            static_cast<std::uint64_t>(a.offset), static_cast<std::uint64_t>(at));
            next.w = stored_stochastically_in(f, next.w, word);
          }
        }
        io.put(next_w, at, next.w);
        io.put(next_m, at, next.m);
        io.put(next_v, at, next.v);
        s = {stored_in(f, next.w), stored_in(f, next.m), stored_in(f, next.v)};
        if (a.low_copy) io.put(low_w, at, s.w);
      }
    }

    /// One step, before it is stored.
    template <class T, class D>
    OPBOUND_HD static State<T> stepped(int variant, const detail::AdamwConstants<T, D>& c,
                                       const State<T>& s, T x) {
      State<T> next;
      next.m = c.beta1 * s.m + c.rest1 * x;
      next.v = c.beta2 * s.v + (c.rest2 * x) * x;
      if (variant == corrected_moments) {
        const T size = sqrt(next.v / c.correction2) + c.eps;
        next.w = s.w - c.lr * ((next.m / c.correction1) / size + c.weight_decay * s.w);
      } else {
        const T size = sqrt(next.v) / c.root_of_correction2 + c.eps;
        next.w = s.w * c.kept - c.step_size * (next.m / size);
      }
      return next;
    }
  };
  using parts = Parts<parameters>;
};

}  // namespace opbound
