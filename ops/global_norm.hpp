// The Euclidean norm of all gradients, over shards: partial sums of squares, then their sum.
//
// Squares overflow from 1.8e19 on (fp32), 256 (fp16), and vanish below 2.6e-23 and 1.7e-4
// (bounds/README.md 9.3). Scaled by a power of two near the largest |g| they do neither, and
// scaling adds no rounding; dividing by the largest |g| itself, as older libraries do, rounds every
// term.
#pragma once

#include "ops/blocks.hpp"
#include "ops/number.hpp"

namespace opbound {

struct global_norm {
  static constexpr std::string_view name = "global_norm";
  static constexpr std::string_view math = "norm = sqrt(sum g^2) over all shards";
  static constexpr std::array<std::string_view, 3> dims{"shards", "n", "one"};

  struct Attributes {};
  static constexpr std::tuple<> attributes{};

  enum { scaled, divided, plain };
  static constexpr std::array variants{
      Variant{"scaled",
              "2^e sqrt(sum (g / 2^e)^2), 2^e <= max |g| < 2^(e + 1); plain where max |g| "
              "is 0 or not finite"},
      Variant{"divided", "m sqrt(sum (g / m)^2), m = max |g|; plain where m is 0 or not finite"},
      Variant{"plain", "sqrt(sum g^2), which over- and underflows"}};
  static constexpr std::string_view refuses(const Attributes&, const Sizes& s) {
    return s[2] == 1 ? "" : "one = 1";
  }

  struct forward;

 private:
  /// What squares are taken of: g (first factor) (second factor), or g / divisor. Two factors,
  /// since 2^149 alone is no fp32 number.
  template <class T>
  struct Scale {
    T first, second, divisor;
    bool divides;

    OPBOUND_HD T of(T g) const { return divides ? g / divisor : g * first * second; }
  };

  /// The norm does not depend on the scale, so its exponent may be taken from a rounded maximum.
  template <class T>
  OPBOUND_HD static Scale<T> scale_for(int variant, T largest) {
    const double m = to_double(largest);
    const bool is_usable = m > 0 && m - m == 0;
    const T one = from<T>(1.0);
    if (variant == plain || !is_usable) return {one, one, one, false};
    if (variant == divided) return {one, one, pivot(largest), true};
    const int e = exponent_of(m), half = e / 2;
    return {from<T>(power_of_two(-half)), from<T>(power_of_two(half - e)), one, false};
  }

  /// floor(log2 m) of a positive m.
  OPBOUND_HD static int exponent_of(double m) {
    int lift = 0;
    if (m < fp64.smallest_normal()) {
      m *= 0x1p64;
      lift = 64;
    }
    return static_cast<int>(detail::magnitude_bits(m) >> 52) - 1023 - lift;
  }
};

struct global_norm::forward {
  enum { g, largest, partial, norm };
  static constexpr std::array tensors{in("g", "shards", "n"), scratch("largest", "shards"),
                                      scratch("partial", "shards"), out("norm", "one")};

  struct shard_maximum : blocks_along<0>, sums_over<1> {
    static constexpr std::array<int, 1> outputs{largest};

    template <class R, class Team, class Io>
    OPBOUND_HD static void define(const Team& team, const Problem<global_norm>&, const Io& io,
                                  std::int64_t shard) {
      team.map(1, [&](std::int64_t) { io.put(largest, shard, from<R>(0.0)); });
    }

    template <class T, class Team, class Io>
    OPBOUND_HD static void kernel(const Team& team, const Problem<global_norm>& p, const Io& io,
                                  std::int64_t shard) {
      const std::int64_t n = p.sizes[1];
      const T top = team.max(n, [&](std::int64_t i) { return abs(io.get(g, shard * n + i)); });
      team.map(1, [&](std::int64_t) { io.put(largest, shard, max(top, from<T>(0.0))); });
    }
  };

  struct shard_sum : blocks_along<0>, sums_over<1> {
    static constexpr std::array<int, 1> outputs{partial};

    template <class R, class Team, class Io>
    OPBOUND_HD static void define(const Team& team, const Problem<global_norm>& p, const Io& io,
                                  std::int64_t shard) {
      const std::int64_t n = p.sizes[1];
      const R sum = team.sum(n, [&](std::int64_t i) {
        const R x = io.get(g, shard * n + i);
        return x * x;
      });
      team.map(1, [&](std::int64_t) { io.put(partial, shard, sum); });
    }

    template <class T, class Team, class Io>
    OPBOUND_HD static void kernel(const Team& team, const Problem<global_norm>& p, const Io& io,
                                  std::int64_t shard) {
      const std::int64_t n = p.sizes[1];
      const Scale<T> scale = common_scale<T>(team, p, io);
      const T sum = team.sum(n, [&](std::int64_t i) {
        const T x = scale.of(io.get(g, shard * n + i));
        return x * x;
      });
      team.map(1, [&](std::int64_t) { io.put(partial, shard, sum); });
    }
  };

  struct root : blocks_along<>, sums_over<0> {
    static constexpr std::array<int, 1> outputs{norm};

    template <class R, class Team, class Io>
    OPBOUND_HD static void define(const Team& team, const Problem<global_norm>& p, const Io& io,
                                  std::int64_t) {
      const R sum = team.sum(p.sizes[0], [&](std::int64_t s) { return io.get(partial, s); });
      team.map(1, [&](std::int64_t) { io.put(norm, 0, sqrt(sum)); });
    }

    template <class T, class Team, class Io>
    OPBOUND_HD static void kernel(const Team& team, const Problem<global_norm>& p, const Io& io,
                                  std::int64_t) {
      const Scale<T> scale = common_scale<T>(team, p, io);
      const T sum = team.sum(p.sizes[0], [&](std::int64_t s) { return io.get(partial, s); });
      team.map(1, [&](std::int64_t) {
        const T r = sqrt(sum);
        io.put(norm, 0, scale.divides ? r * scale.divisor : r / scale.first / scale.second);
      });
    }
  };

  template <class T, class Team, class Io>
  OPBOUND_HD static Scale<T> common_scale(const Team& team, const Problem<global_norm>& p,
                                          const Io& io) {
    return scale_for<T>(p.variant,
                        team.max(p.sizes[0], [&](std::int64_t s) { return io.get(largest, s); }));
  }

  using parts = Parts<shard_maximum, shard_sum, root>;
};

}  // namespace opbound
