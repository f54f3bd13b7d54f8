// Rows of a table by index, and the gradient of the table: the scatter-add of the upstream rows.
//
// Conventions: an index outside the table gives NaN rows and adds nothing; padding_idx reads its
// row as any other and gets the gradient 0. A row that nobody reads has the gradient 0.
//
// bounds/README.md 9.4: k = how often a token occurs; in any order, atomics among them, the sum is
// within (k - 1) u sum |g|.
#pragma once

#include <limits>

#include "ops/describe.hpp"
#include "ops/exact_reductions.hpp"
#include "ops/number.hpp"
#include "ops/team.hpp"

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
  static constexpr bool allows(const Attributes&, int) { return true; }

  struct forward;
  struct backward;
};

struct embedding::forward {
  enum { table, index, y };
  static constexpr std::array tensors{in("table", "vocab", "width"),
                                      opbound::index("index", "vocab", "tokens"),
                                      out("y", "tokens", "width")};

  /// One block a token.
  struct tokens {
    static constexpr std::array<int, 1> outputs{y};
    OPBOUND_HD static std::int64_t blocks(const Sizes& s) { return s[0]; }
    OPBOUND_HD static std::int64_t block_of(const Sizes& s, int, std::int64_t i) {
      return i / s[2];
    }
    OPBOUND_HD static std::int64_t longest_sum(const Sizes&) { return 1; }

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

  /// One block a row of the table.
  struct rows {
    static constexpr std::array<int, 1> outputs{dtable};
    OPBOUND_HD static std::int64_t blocks(const Sizes& s) { return s[1]; }
    OPBOUND_HD static std::int64_t block_of(const Sizes& s, int, std::int64_t i) {
      return i / s[2];
    }
    OPBOUND_HD static std::int64_t longest_sum(const Sizes& s) { return s[0]; }

    template <class R, class Team, class Io>
    OPBOUND_HD static void define(const Team&, const Problem<embedding>& p, const Io& io,
                                  std::int64_t row) {
      for (std::int64_t c = 0; c < p.sizes[2]; ++c) {
        R sum = from<R>(0.0);
        double gauge = 0;
        for (std::int64_t i = 0; i < p.sizes[0]; ++i) {
          if (io.index(index, i) != row || row == p.attributes.padding_idx) continue;
          const R g = io.get(dy, i * p.sizes[2] + c);
          sum = sum + g;
          gauge += magnitude(g);
        }
        io.put(dtable, row * p.sizes[2] + c, sum, gauge);
      }
    }

    template <class T, class Team, class Io>
    OPBOUND_HD static void kernel(const Team& team, const Problem<embedding>& p, const Io& io,
                                  std::int64_t row) {
      const std::int64_t width = p.sizes[2];
      const std::int64_t found =
          row == p.attributes.padding_idx ? 0 : count_of(team, p.sizes[0], [&](std::int64_t i) {
            return io.index(index, i) == row;
          });
      team.map(width, [&](std::int64_t c) {
        std::int64_t i = -1;  // the lane walks over the tokens once
        const T sum = team.serial_sum(found, [&](std::int64_t) {
          do ++i;
          while (io.index(index, i) != row);
          return io.get(dy, i * width + c);
        });
        io.put(dtable, row * width + c, sum);
      });
    }
  };
  using parts = Parts<rows>;
};

}  // namespace opbound
