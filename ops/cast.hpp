// Casts between formats: round to nearest even, saturating, stochastic, and through a third format.
//
// A cast is judged by rule (A) with bound 0: only RN of the value will do. Through a wider format
// it is the identity, through a narrower one it rounds there first, and twice is not once.
#pragma once

#include "ops/blocks.hpp"
#include "ops/number.hpp"
#include "ops/philox.hpp"

namespace opbound {

struct cast {
  static constexpr std::string_view name = "cast";
  static constexpr std::string_view math =
      "y = x; saturate: y = the nearest value to x in [-largest, largest] of the output format";
  static constexpr std::array<std::string_view, 1> dims{"n"};

  struct Attributes {
    Format through = fp64;  ///< stored there on the way
    bool saturate = false;  ///< of infinities too; NaN stays NaN
    std::int64_t seed = 0;  ///< of stochastic rounding
    std::int64_t offset = 0;
  };
  static constexpr auto attributes =
      std::tuple{field("through", &Attributes::through), field("saturate", &Attributes::saturate),
                 field("seed", &Attributes::seed), field("offset", &Attributes::offset)};

  enum { nearest, stochastic };
  static constexpr std::array variants{
      Variant{"nearest", "rounded to nearest even"},
      Variant{"stochastic", "rounded up with a probability that keeps the mean"}};

  struct forward {
    enum { x, y };
    static constexpr std::array tensors{in("x", "n"), out("y", "n")};

    struct elements : elementwise_blocks<0> {
      static constexpr std::array<int, 1> outputs{y};

      template <class R, class Team, class Io>
      OPBOUND_HD static void define(const Team& team, const Problem<cast>& p, const Io& io,
                                    std::int64_t block) {
        const R top = from<R>(io.format(y).largest());
        each(team, p.sizes, block, [&](std::int64_t i) {
          const R v = io.get(x, i);
          io.put(y, i, p.attributes.saturate ? max(min(v, top), -top) : v);
        });
      }

      template <class T, class Team, class Io>
      OPBOUND_HD static void kernel(const Team& team, const Problem<cast>& p, const Io& io,
                                    std::int64_t block) {
        const Attributes& a = p.attributes;
        const Format f = io.format(y);
        const T top = from<T>(f.largest());
        each(team, p.sizes, block, [&](std::int64_t i) {
          T v = stored_in(a.through, io.get(x, i));
          if (a.saturate) v = min(max(v, -top), top);
          if (p.variant == stochastic)
            v = stored_stochastically_in(
                f, v,
                philox_word(static_cast<std::uint64_t>(a.seed),
                            static_cast<std::uint64_t>(a.offset), static_cast<std::uint64_t>(i)));
          io.put(y, i, v);
        });
      }
    };
    using parts = Parts<elements>;
  };
};

}  // namespace opbound
