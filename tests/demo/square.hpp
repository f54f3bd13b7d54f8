// A demonstration op: y = x^2. Kept out of ops/ so that a test can add it to a copy of the tree.
#pragma once

#include "ops/blocks.hpp"
#include "ops/number.hpp"

namespace opbound {

struct square {
  static constexpr std::string_view name = "square";
  static constexpr std::string_view math = "y = x^2";
  static constexpr std::array<std::string_view, 1> dims{"n"};

  struct Attributes {};
  static constexpr std::tuple<> attributes{};
  static constexpr std::array variants{Variant{"product", "x x"}};

  struct forward {
    enum { x, y };
    static constexpr std::array tensors{in("x", "n"), out("y", "n")};

    struct elements : blocks_along<0> {
      static constexpr std::array<int, 1> outputs{y};

      template <class R, class Team, class Io>
      OPBOUND_HD static void define(const Team& team, const Problem<square>&, const Io& io,
                                    std::int64_t i) {
        team.map(1, [&](std::int64_t) { io.put(y, i, io.get(x, i) * io.get(x, i)); });
      }
      template <class T, class Team, class Io>
      OPBOUND_HD static void kernel(const Team& team, const Problem<square>&, const Io& io,
                                    std::int64_t i) {
        team.map(1, [&](std::int64_t) {
          const T v = io.get(x, i);
          io.put(y, i, v * v);
        });
      }
    };
    using parts = Parts<elements>;
  };
};

}  // namespace opbound
