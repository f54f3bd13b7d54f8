// Bias of a linear layer: y = x + b, the same b for every row.
//
// The gradient of b is a sum over all tokens: (rows - 1) u sum |dy| whatever the order, so that
// adding in a 16-bit format loses it after a few hundred rows.
#pragma once

#include "ops/blocks.hpp"
#include "ops/definition.hpp"
#include "ops/number.hpp"

namespace opbound {

struct bias {
  static constexpr std::string_view name = "bias";
  static constexpr std::string_view math = "y[r, c] = x[r, c] + b[c]";
  static constexpr std::array<std::string_view, 2> dims{"rows", "n"};

  struct Attributes {};
  static constexpr std::tuple<> attributes{};

  enum { direct };
  static constexpr std::array variants{Variant{"direct", "x + b; db = sum over the rows of dy"}};

  struct forward;
  struct backward;
};

struct bias::forward {
  enum { x, b, y };
  static constexpr std::array tensors{in("x", "rows", "n"), in("b", "n"), out("y", "rows", "n")};

  struct elements : elementwise_blocks<0, 1> {
    static constexpr std::array<int, 1> outputs{y};

    template <class R, class Team, class Io>
    OPBOUND_HD static void define(const Team& team, const Problem<bias>& p, const Io& io,
                                  std::int64_t block) {
      each(team, p.sizes, block, [&](std::int64_t i) {
        io.put(y, i, gauged_sum(io.get(x, i), io.get(b, i % p.sizes[1])));
      });
    }

    template <class T, class Team, class Io>
    OPBOUND_HD static void kernel(const Team& team, const Problem<bias>& p, const Io& io,
                                  std::int64_t block) {
      each(team, p.sizes, block,
           [&](std::int64_t i) { io.put(y, i, io.get(x, i) + io.get(b, i % p.sizes[1])); });
    }
  };
  using parts = Parts<elements>;
};

/// dx = dy, db = sum over the rows of dy.
struct bias::backward {
  enum { dy, dx, db };
  static constexpr std::array tensors{in("dy", "rows", "n"), out("dx", "rows", "n"),
                                      out("db", "n")};

  struct elements : elementwise_blocks<0, 1> {
    static constexpr std::array<int, 1> outputs{dx};

    template <class R, class Team, class Io>
    OPBOUND_HD static void define(const Team& team, const Problem<bias>& p, const Io& io,
                                  std::int64_t block) {
      each(team, p.sizes, block, [&](std::int64_t i) { io.put(dx, i, io.get(dy, i)); });
    }
    template <class T, class Team, class Io>
    OPBOUND_HD static void kernel(const Team& team, const Problem<bias>& p, const Io& io,
                                  std::int64_t block) {
      each(team, p.sizes, block, [&](std::int64_t i) { io.put(dx, i, io.get(dy, i)); });
    }
  };

  struct columns : blocks_along<1>, sums_over<0> {
    static constexpr std::array<int, 1> outputs{db};

    template <class R, class Team, class Io>
    OPBOUND_HD static void define(const Team&, const Problem<bias>& p, const Io& io,
                                  std::int64_t c) {
      const std::int64_t rows = p.sizes[0], n = p.sizes[1];
      io.put(db, c, gauged_sum_of<R>(rows, [&](std::int64_t r) { return io.get(dy, r * n + c); }));
    }

    template <class T, class Team, class Io>
    OPBOUND_HD static void kernel(const Team& team, const Problem<bias>& p, const Io& io,
                                  std::int64_t c) {
      const std::int64_t rows = p.sizes[0], n = p.sizes[1];
      const T total = team.sum(rows, [&](std::int64_t r) { return io.get(dy, r * n + c); });
      team.map(1, [&](std::int64_t) { io.put(db, c, total); });
    }
  };
  using parts = Parts<elements, columns>;
};

}  // namespace opbound
