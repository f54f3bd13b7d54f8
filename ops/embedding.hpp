// Rows of a table by index, and the gradient of the table: the scatter-add of the upstream rows.
//
// Conventions: an index outside the table gives NaN rows and adds nothing; padding_idx reads its
// row as any other and gets the gradient 0. A row that nobody reads has the gradient 0.
//
// bounds/README.md 9.4: k = how often a token occurs; in any order, atomics among them, the sum is
// within (k - 1) u sum |g|.
#pragma once

#include <limits>

#include "ops/blocks.hpp"
#include "ops/definition.hpp"
#include "ops/exact_reductions.hpp"
#include "ops/number.hpp"

namespace opbound {

struct embedding {
  static constexpr std::string_view name = "embedding";
  static constexpr std::string_view math =
      "y_i = table[index_i]; dtable_r = sum over i with index_i = r of dy_i, 0 for padding_idx";
  static constexpr std::array<std::string_view, 3> dims{"tokens", "vocab", "width"};

  struct Attributes {
    std::int64_t padding_idx = -1;  ///< none
  };
  static constexpr auto attributes = std::tuple{field("padding_idx", &Attributes::padding_idx)};

  enum { gather };
  static constexpr std::array variants{
      Variant{"gather", "copy; backward one sum a row of the table, in the order of the tokens"}};

  struct forward;
  struct backward;
};

struct embedding::forward {
  enum { table, index, y };
  static constexpr std::array tensors{in("table", "vocab", "width"),
                                      opbound::index("index", "vocab", "tokens"),
                                      out("y", "tokens", "width")};

  struct tokens : blocks_along<0> {
    static constexpr std::array<int, 1> outputs{y};

    template <class R, class Team, class Io>
    OPBOUND_HD static void define(const Team& team, const Problem<embedding>& p, const Io& io,
                                  std::int64_t token) {
      const std::int64_t width = p.sizes[2], row = io.index(index, token);
      const bool is_there = row >= 0 && row < p.sizes[1];
      team.map(width, [&](std::int64_t c) {
        io.put(y, token * width + c,
               is_there ? io.get(table, row * width + c)
                        : from<R>(std::numeric_limits<double>::quiet_NaN()));
      });
    }

    template <class T, class Team, class Io>
    OPBOUND_HD static void kernel(const Team& team, const Problem<embedding>& p, const Io& io,
                                  std::int64_t token) {
      const std::int64_t width = p.sizes[2], row = io.index(index, token);
      if (row < 0 || row >= p.sizes[1]) {
        return team.map(width, [&](std::int64_t c) {
          io.put(y, token * width + c, from<T>(std::numeric_limits<double>::quiet_NaN()));
        });
      }
      team.map(width, [&](std::int64_t c) {
        io.put(y, token * width + c, io.get(table, row * width + c));
      });
    }
  };
  using parts = Parts<tokens>;
};

struct embedding::backward {
  enum { index, dy, dtable };
  static constexpr std::array tensors{opbound::index("index", "vocab", "tokens"),
                                      in("dy", "tokens", "width"), out("dtable", "vocab", "width")};

  struct rows : blocks_along<1>, sums_over<0> {
    static constexpr std::array<int, 1> outputs{dtable};

    template <class R, class Team, class Io>
    OPBOUND_HD static void define(const Team&, const Problem<embedding>& p, const Io& io,
                                  std::int64_t row) {
      for (std::int64_t c = 0; c < p.sizes[2]; ++c) {
        GaugedSum<R> sum;
        for (std::int64_t i = 0; i < p.sizes[0]; ++i) {
          if (io.index(index, i) != row || row == p.attributes.padding_idx) continue;
          sum.add(io.get(dy, i * p.sizes[2] + c));
        }
        io.put(dtable, row * p.sizes[2] + c, sum);
      }
    }

    template <class T, class Team, class Io>
    OPBOUND_HD static void kernel(const Team& team, const Problem<embedding>& p, const Io& io,
                                  std::int64_t row) {
      const std::int64_t width = p.sizes[2];
      const auto holds = [&](std::int64_t i) { return io.index(index, i) == row; };
      const bool is_padding = row == p.attributes.padding_idx;
      const std::int64_t found = is_padding ? 0 : count_of(team, p.sizes[0], holds);
      team.map(width, [&](std::int64_t c) {
        io.put(dtable, row * width + c, sum_where(team, found, holds, [&](std::int64_t i) {
                 return io.get(dy, i * width + c);
               }));
      });
    }
  };
  using parts = Parts<rows>;
};

}  // namespace opbound
