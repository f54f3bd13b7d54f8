// Clipping of gradients by their global norm (Pascanu, Mikolov and Bengio 2013), as PyTorch does.
//
// Extended reals as the formula has them: an infinite norm makes the coefficient 0, so that finite
// gradients vanish and infinite ones turn NaN; a NaN norm makes every gradient NaN.
#pragma once

#include "ops/blocks.hpp"
#include "ops/number.hpp"

namespace opbound {

struct clip {
  static constexpr std::string_view name = "clip";
  static constexpr std::string_view math =
      "coefficient = min(1, max_norm / (norm + eps)), clipped = coefficient g";
  static constexpr std::array<std::string_view, 2> dims{"n", "one"};

  struct Attributes {
    double max_norm = 1;
    double eps = 1e-6;
  };
  static constexpr auto attributes =
      std::tuple{field("max_norm", &Attributes::max_norm), field("eps", &Attributes::eps)};

  enum { division, reciprocal, gradient_first };
  static constexpr std::array variants{
      Variant{"division", "g * min(1, max_norm / (norm + eps))"},
      Variant{"reciprocal", "g * min(1, max_norm * (1 / (norm + eps)))"},
      Variant{"gradient_first", "(g * max_norm) / max(norm + eps, max_norm)"}};
  static constexpr std::string_view refuses(const Attributes& a, const Sizes& s) {
    if (!(a.max_norm >= 0) || !is_from(0, a.eps)) return "max_norm and eps of at least 0";
    return s[1] == 1 ? "" : "one = 1";
  }

  struct forward {
    enum { g, norm, coefficient, clipped };
    static constexpr std::array tensors{in("g", "n"), in("norm", "one").as("compute"),
                                        out("coefficient", "one").as("compute"),
                                        out("clipped", "n")};

    /// min(1, max_norm / (norm + eps)); norm is not negative.
    template <class R, class Io>
    OPBOUND_HD static R exact_coefficient(const Attributes& a, const Io& io) {
      return min(from<R>(1.0), from<R>(a.max_norm) / (io.get(norm, 0) + from<R>(a.eps)));
    }

    template <class T, class Io>
    OPBOUND_HD static T rounded_coefficient(const Problem<clip>& p, const Io& io) {
      const T limit = from<T>(p.attributes.max_norm), one = from<T>(1.0);
      const T size = io.get(norm, 0) + from<T>(p.attributes.eps);
      if (p.variant == reciprocal) return min(limit * (one / size), one);
      return min(limit / size, one);
    }

    struct factor : blocks_along<> {
      static constexpr std::array<int, 1> outputs{coefficient};

      template <class R, class Team, class Io>
      OPBOUND_HD static void define(const Team& team, const Problem<clip>& p, const Io& io,
                                    std::int64_t) {
        team.map(1, [&](std::int64_t) {
          io.put(coefficient, 0, exact_coefficient<R>(p.attributes, io));
        });
      }
      template <class T, class Team, class Io>
      OPBOUND_HD static void kernel(const Team& team, const Problem<clip>& p, const Io& io,
                                    std::int64_t) {
        team.map(1, [&](std::int64_t) { io.put(coefficient, 0, rounded_coefficient<T>(p, io)); });
      }
    };

    struct elements : elementwise_blocks<0> {
      static constexpr std::array<int, 1> outputs{clipped};

      template <class R, class Team, class Io>
      OPBOUND_HD static void define(const Team& team, const Problem<clip>& p, const Io& io,
                                    std::int64_t block) {
        const R c = exact_coefficient<R>(p.attributes, io);
        each(team, p.sizes, block, [&](std::int64_t i) { io.put(clipped, i, c * io.get(g, i)); });
      }

      template <class T, class Team, class Io>
      OPBOUND_HD static void kernel(const Team& team, const Problem<clip>& p, const Io& io,
                                    std::int64_t block) {
        if (p.variant == gradient_first) {
          const T limit = from<T>(p.attributes.max_norm);
          const T size = max(io.get(norm, 0) + from<T>(p.attributes.eps), limit);
          each(team, p.sizes, block,
               [&](std::int64_t i) { io.put(clipped, i, (io.get(g, i) * limit) / size); });
          return;
        }
        const T c = rounded_coefficient<T>(p, io);
        each(team, p.sizes, block, [&](std::int64_t i) { io.put(clipped, i, io.get(g, i) * c); });
      }
    };
    using parts = Parts<factor, elements>;
  };
};

}  // namespace opbound
