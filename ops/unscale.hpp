// Unscaling of gradients after a scaled loss (Micikevicius et al. 2018): g / scale, and whether any
// gradient is infinite or NaN.
//
// A power of two divides exactly, above underflow; what a 16-bit store loses below 2^-25 (fp16) is
// lost whatever the scale was (bounds/README.md 4).
#pragma once

#include "ops/blocks.hpp"
#include "ops/number.hpp"

namespace opbound {

struct unscale {
  static constexpr std::string_view name = "unscale";
  static constexpr std::string_view math =
      "unscaled = g / scale; found_inf: is any g infinite or NaN?";
  static constexpr std::array<std::string_view, 2> dims{"n", "one"};

  struct Attributes {};
  static constexpr std::tuple<> attributes{};

  enum { division, reciprocal };
  static constexpr std::array variants{Variant{"division", "g / scale"},
                                       Variant{"reciprocal", "g * (1 / scale)"}};
  static constexpr std::string_view refuses(const Attributes&, const Sizes& s) {
    return s[1] == 1 ? "" : "one = 1";
  }

  struct forward {
    enum { g, scale, unscaled, found_inf };
    static constexpr std::array tensors{in("g", "n"), in("scale", "one").as("fp32"),
                                        out("unscaled", "n"),
                                        out("found_inf", "one").as("boolean")};

    struct elements : elementwise_blocks<0> {
      static constexpr std::array<int, 1> outputs{unscaled};

      template <class R, class Team, class Io>
      OPBOUND_HD static void define(const Team& team, const Problem<unscale>& p, const Io& io,
                                    std::int64_t block) {
        each(team, p.sizes, block,
             [&](std::int64_t i) { io.put(unscaled, i, io.get(g, i) / io.get(scale, 0)); });
      }

      template <class T, class Team, class Io>
      OPBOUND_HD static void kernel(const Team& team, const Problem<unscale>& p, const Io& io,
                                    std::int64_t block) {
        const T s = io.get(scale, 0), inverse = from<T>(1.0) / s;
        const bool divides = p.variant == division;
        each(team, p.sizes, block, [&](std::int64_t i) {
          io.put(unscaled, i, divides ? io.get(g, i) / s : io.get(g, i) * inverse);
        });
      }
    };

    /// Of the gradients as they came: a scale below 1 may overflow what is finite, which is no
    /// reason to skip the step.
    struct overflow : blocks_along<>, sums_over<0> {
      static constexpr std::array<int, 1> outputs{found_inf};

      template <class R, class Team, class Io>
      OPBOUND_HD static void define(const Team& team, const Problem<unscale>& p, const Io& io,
                                    std::int64_t) {
        std::int64_t finite = 0;
        for (std::int64_t i = 0; i < p.sizes[0]; ++i) finite += io.is_finite(g, i) ? 1 : 0;
        team.map(1, [&](std::int64_t) { io.put_index(found_inf, 0, finite < p.sizes[0] ? 1 : 0); });
      }

      template <class T, class Team, class Io>
      OPBOUND_HD static void kernel(const Team& team, const Problem<unscale>& p, const Io& io,
                                    std::int64_t) {
        const bool found =
            team.any(p.sizes[0], [&](std::int64_t i) { return !io.is_finite(g, i); });
        team.map(1, [&](std::int64_t) { io.put_index(found_inf, 0, found ? 1 : 0); });
      }
    };
    using parts = Parts<elements, overflow>;
  };
};

}  // namespace opbound
