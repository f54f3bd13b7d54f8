// Sums of rows by segment: segments given by the segment id of each row, or by offsets.
//
// Conventions: an id outside adds to nothing; segment s of offsets is rows offset_s to offset_s+1 -
// 1 as far as there are such rows, so that it may be empty and segments may overlap. The sum of an
// empty segment is 0. A row's gradient is the sum of those of the segments that hold it.
#pragma once

#include "ops/blocks.hpp"
#include "ops/definition.hpp"
#include "ops/exact_reductions.hpp"
#include "ops/number.hpp"

namespace opbound {

struct segmented_sum {
  static constexpr std::string_view name = "segmented_sum";
  static constexpr std::string_view math =
      "y_s = sum over the rows i of segment s of x_i; dx_i = sum over the segments s of i of dy_s";
  static constexpr std::array<std::string_view, 4> dims{"n", "width", "segments", "ends"};

  enum class By : std::uint8_t { ids, offsets };
  struct Attributes {
    By by = By::ids;
  };
  static constexpr auto attributes = std::tuple{choice("by", &Attributes::by, "ids", "offsets")};

  enum { serial, tree };
  static constexpr std::array variants{
      Variant{"serial", "one lane a column, in the order of the rows"},
      Variant{"tree", "all lanes on one column after the other"}};
  static constexpr bool allows(const Attributes& a, int variant) {
    return variant == serial || a.by == By::offsets;
  }

  static constexpr bool has_tensor(const Attributes& a, std::string_view tensor) {
    if (tensor == "ids") return a.by == By::ids;
    if (tensor == "offsets") return a.by == By::offsets;
    return true;
  }
  static constexpr std::string_view refuses(const Attributes& a, const Sizes& s) {
    return a.by == By::ids || s[3] == s[2] + 1 ? "" : "ends = segments + 1";
  }

  struct forward;
  struct backward;

 private:
  // ---- definition

  /// Does segment s hold row i? `ids` and `offsets` are a pass's places of these tensors.
  template <class Io>
  OPBOUND_HD static bool is_in(const Problem<segmented_sum>& p, const Io& io, int ids, int offsets,
                               std::int64_t i, std::int64_t s) {
    if (p.attributes.by == By::ids) return io.index(ids, i) == s;
    return io.index(offsets, s) <= i && i < io.index(offsets, s + 1);
  }

  // ---- kernel

  /// Rows first to first + count - 1.
  struct Range {
    std::int64_t first, count;
    OPBOUND_HD bool holds(std::int64_t i) const { return i >= first && i - first < count; }
  };

  template <class Io>
  OPBOUND_HD static Range range_of(const Io& io, const Sizes& s, int offsets,
                                   std::int64_t segment) {
    const auto clipped = [&](std::int64_t i) { return i < 0 ? 0 : i > s[0] ? s[0] : i; };
    const std::int64_t first = clipped(io.index(offsets, segment)),
                       last = clipped(io.index(offsets, segment + 1));
    return {first, last > first ? last - first : 0};
  }
};

struct segmented_sum::forward {
  enum { x, ids, offsets, y };
  static constexpr std::array tensors{
      in("x", "n", "width"), index("ids", "segments", "n").or_else("any"),
      index("offsets", "n", "ends").or_else("size"), out("y", "segments", "width")};

  struct segments : blocks_along<2>, sums_over<0> {
    static constexpr std::array<int, 1> outputs{y};

    template <class R, class Team, class Io>
    OPBOUND_HD static void define(const Team&, const Problem<segmented_sum>& p, const Io& io,
                                  std::int64_t segment) {
      for (std::int64_t c = 0; c < p.sizes[1]; ++c) {
        GaugedSum<R> sum;
        for (std::int64_t i = 0; i < p.sizes[0]; ++i)
          if (is_in(p, io, ids, offsets, i, segment)) sum.add(io.get(x, i * p.sizes[1] + c));
        io.put(y, segment * p.sizes[1] + c, sum);
      }
    }

    template <class T, class Team, class Io>
    OPBOUND_HD static void kernel(const Team& team, const Problem<segmented_sum>& p, const Io& io,
                                  std::int64_t segment) {
      const std::int64_t width = p.sizes[1];
      if (p.attributes.by == By::ids) {
        const auto holds = [&](std::int64_t i) { return io.index(ids, i) == segment; };
        const std::int64_t found = count_of(team, p.sizes[0], holds);
        return team.map(width, [&](std::int64_t c) {
          io.put(y, segment * width + c, sum_where(team, found, holds, [&](std::int64_t i) {
                   return io.get(x, i * width + c);
                 }));
        });
      }
      const Range range = range_of(io, p.sizes, offsets, segment);
      const auto row = [&](std::int64_t c) {
        return [&, c](std::int64_t k) { return io.get(x, (range.first + k) * width + c); };
      };
      if (p.variant == serial) {
        return team.map(width, [&](std::int64_t c) {
          const T sum = team.serial_sum(range.count, row(c));
          io.put(y, segment * width + c, sum);
        });
      }
      for (std::int64_t c = 0; c < width; ++c) {
        const T sum = team.sum(range.count, row(c));
        team.map(1, [&](std::int64_t) { io.put(y, segment * width + c, sum); });
      }
    }
  };
  using parts = Parts<segments>;
};

struct segmented_sum::backward {
  enum { ids, offsets, dy, dx };
  static constexpr std::array tensors{index("ids", "segments", "n").or_else("any"),
                                      index("offsets", "n", "ends").or_else("size"),
                                      in("dy", "segments", "width"), out("dx", "n", "width")};

  struct rows : blocks_along<0>, sums_over<2> {
    static constexpr std::array<int, 1> outputs{dx};

    template <class R, class Team, class Io>
    OPBOUND_HD static void define(const Team&, const Problem<segmented_sum>& p, const Io& io,
                                  std::int64_t i) {
      for (std::int64_t c = 0; c < p.sizes[1]; ++c) {
        GaugedSum<R> sum;
        for (std::int64_t s = 0; s < p.sizes[2]; ++s)
          if (is_in(p, io, ids, offsets, i, s)) sum.add(io.get(dy, s * p.sizes[1] + c));
        io.put(dx, i * p.sizes[1] + c, sum);
      }
    }

    template <class T, class Team, class Io>
    OPBOUND_HD static void kernel(const Team& team, const Problem<segmented_sum>& p, const Io& io,
                                  std::int64_t i) {
      const std::int64_t width = p.sizes[1];
      if (p.attributes.by == By::ids) {
        const std::int64_t s = io.index(ids, i);
        const bool is_there = s >= 0 && s < p.sizes[2];
        return team.map(width, [&](std::int64_t c) {
          io.put(dx, i * width + c, is_there ? io.get(dy, s * width + c) : from<T>(0.0));
        });
      }
      const auto holds = [&](std::int64_t s) { return range_of(io, p.sizes, offsets, s).holds(i); };
      const std::int64_t found = count_of(team, p.sizes[2], holds);
      team.map(width, [&](std::int64_t c) {
        io.put(dx, i * width + c, sum_where(team, found, holds, [&](std::int64_t s) {
                 return io.get(dy, s * width + c);
               }));
      });
    }
  };
  using parts = Parts<rows>;
};

}  // namespace opbound
