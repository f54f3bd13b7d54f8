// Sums of rows by segment: segments given by the segment id of each row, or by offsets.
//
// Conventions: an id outside adds to nothing; segment s of offsets is rows offset_s to offset_s+1 -
// 1 as far as there are such rows, so that it may be empty and segments may overlap. The sum of an
// empty segment is 0. A row's gradient is the sum of those of the segments that hold it.
#pragma once

#include "ops/describe.hpp"
#include "ops/exact_reductions.hpp"
#include "ops/number.hpp"
#include "ops/team.hpp"

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

  /// One block a segment.
  struct segments {
    static constexpr std::array<int, 1> outputs{y};
    OPBOUND_HD static std::int64_t blocks(const Sizes& s) { return s[2]; }
    OPBOUND_HD static std::int64_t block_of(const Sizes& s, int, std::int64_t i) {
      return i / s[1];
    }
    OPBOUND_HD static std::int64_t longest_sum(const Sizes& s) { return s[0]; }

    template <class R, class Team, class Io>
    OPBOUND_HD static void define(const Team&, const Problem<segmented_sum>& p, const Io& io,
                                  std::int64_t segment) {
      const bool has_ids = p.attributes.by == By::ids;
      for (std::int64_t c = 0; c < p.sizes[1]; ++c) {
        R sum = from<R>(0.0);
        double gauge = 0;
        for (std::int64_t i = 0; i < p.sizes[0]; ++i) {
          if (has_ids ? io.index(ids, i) != segment
                      : i < io.index(offsets, segment) || i >= io.index(offsets, segment + 1))
            continue;
          const R v = io.get(x, i * p.sizes[1] + c);
          sum = sum + v;
          gauge += magnitude(v);
        }
        io.put(y, segment * p.sizes[1] + c, sum, gauge);
      }
    }

    template <class T, class Team, class Io>
    OPBOUND_HD static void kernel(const Team& team, const Problem<segmented_sum>& p, const Io& io,
                                  std::int64_t segment) {
      const std::int64_t width = p.sizes[1];
      if (p.attributes.by == By::ids) {
        const std::int64_t found =
            count_of(team, p.sizes[0], [&](std::int64_t i) { return io.index(ids, i) == segment; });
        return team.map(width, [&](std::int64_t c) {
          std::int64_t i = -1;  // the lane walks over the rows once
          const T sum = team.serial_sum(found, [&](std::int64_t) {
            do ++i;
            while (io.index(ids, i) != segment);
            return io.get(x, i * width + c);
          });
          io.put(y, segment * width + c, sum);
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

  /// One block a row.
  struct rows {
    static constexpr std::array<int, 1> outputs{dx};
    OPBOUND_HD static std::int64_t blocks(const Sizes& s) { return s[0]; }
    OPBOUND_HD static std::int64_t block_of(const Sizes& s, int, std::int64_t i) {
      return i / s[1];
    }
    OPBOUND_HD static std::int64_t longest_sum(const Sizes& s) { return s[2]; }

    template <class R, class Team, class Io>
    OPBOUND_HD static void define(const Team&, const Problem<segmented_sum>& p, const Io& io,
                                  std::int64_t i) {
      const bool has_ids = p.attributes.by == By::ids;
      for (std::int64_t c = 0; c < p.sizes[1]; ++c) {
        R sum = from<R>(0.0);
        double gauge = 0;
        for (std::int64_t s = 0; s < p.sizes[2]; ++s) {
          if (has_ids ? io.index(ids, i) != s
                      : i < io.index(offsets, s) || i >= io.index(offsets, s + 1))
            continue;
          const R g = io.get(dy, s * p.sizes[1] + c);
          sum = sum + g;
          gauge += magnitude(g);
        }
        io.put(dx, i * p.sizes[1] + c, sum, gauge);
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
        std::int64_t s = -1;
        const T sum = team.serial_sum(found, [&](std::int64_t) {
          do ++s;
          while (!holds(s));
          return io.get(dy, s * width + c);
        });
        io.put(dx, i * width + c, sum);
      });
    }
  };
  using parts = Parts<rows>;
};

}  // namespace opbound
