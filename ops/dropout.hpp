// Dropout (Srivastava et al. 2014) with Philox4x32-10: the mask is an exact function of (seed,
// offset, element), whatever grid or vector width computes it, so that the backward pass makes it
// again.
//
// A comparison of b random bits drops with probability ceil(p 2^b) / 2^b, not p: with 8 bits 0.1
// becomes 0.1016, and the scale 1 / (1 - p) no longer restores the mean (bounds/README.md 8.1).
#pragma once

#include "ops/blocks.hpp"
#include "ops/number.hpp"
#include "ops/philox.hpp"

namespace opbound {

struct dropout {
  static constexpr std::string_view name = "dropout";
  static constexpr std::string_view math =
      "mask = U >= p, U the first bits of the element's Philox word as a fraction of 1; y = x mask "
      "/ (1 - p), dx = dy mask / (1 - p)";
  static constexpr std::array<std::string_view, 2> dims{"rows", "n"};

  enum class Bits { b32, b24, b16, b8 };
  /// What a dropped x becomes: 0, selected whatever x is, or 0 x, which is NaN for an infinity or
  /// NaN.
  enum class Dropped { zero, product };
  struct Attributes {
    double p = 0.1;
    std::int64_t seed = 0;
    std::int64_t offset = 0;  ///< a step must advance it
    Bits bits = Bits::b32;
    Dropped dropped = Dropped::zero;
  };
  static constexpr auto attributes =
      std::tuple{field("p", &Attributes::p), field("seed", &Attributes::seed),
                 field("offset", &Attributes::offset),
                 choice("bits", &Attributes::bits, "32", "24", "16", "8"),
                 choice("dropped", &Attributes::dropped, "zero", "product")};

  enum { product, division };
  static constexpr std::array variants{Variant{"product", "x * (1 / (1 - p)) where kept"},
                                       Variant{"division", "x / (1 - p) where kept"}};
  static constexpr std::string_view refuses(const Attributes& a, const Sizes&) {
    return a.p >= 0 && a.p <= 1 ? "" : "p from 0 to 1";
  }

  OPBOUND_HD static constexpr int bits_of(const Attributes& a) {
    return 32 - 8 * static_cast<int>(a.bits);
  }
  OPBOUND_HD static std::uint32_t word_of(const Attributes& a, std::int64_t i) {
    return philox_word(static_cast<std::uint64_t>(a.seed), static_cast<std::uint64_t>(a.offset),
                       static_cast<std::uint64_t>(i));
  }

  struct forward;
  struct backward;

 private:
  /// U < p iff the integer 2^b U is below ceil(p 2^b), a number from 0 to 2^b.
  OPBOUND_HD static bool keeps(const Attributes& a, std::int64_t i) {
    const double scaled = a.p * power_of_two(bits_of(a));  // exact
    auto threshold = static_cast<std::uint64_t>(scaled);
    if (static_cast<double>(threshold) < scaled) ++threshold;
    return word_of(a, i) >> (32 - bits_of(a)) >= threshold;
  }

  /// 1 - p as one number of T: the difference of two doubles, exact as a pair, rounded once.
  template <class T>
  OPBOUND_HD static T kept_share(const Attributes& a) {
    const double high = 1 - a.p;
    return constant<T>(Real{high, (1 - high) - a.p});
  }

  template <class T>
  OPBOUND_HD static T applied(const Problem<dropout>& p, bool keeps, T x, T share, T scale) {
    if (!keeps) return p.attributes.dropped == Dropped::zero ? from<T>(0.0) : x * from<T>(0.0);
    return p.variant == division ? x / share : x * scale;
  }

  // ---- definition

  /// U >= p over the real numbers.
  OPBOUND_HD static bool is_kept(const Attributes& a, std::int64_t i) {
    const int b = bits_of(a);
    const std::uint32_t integer = word_of(a, i) / (std::uint32_t{1} << (32 - b));
    return static_cast<double>(integer) * power_of_two(-b) >= a.p;
  }

  template <class R>
  OPBOUND_HD static R scaled(const Attributes& a, std::int64_t i, R x) {
    if (!is_kept(a, i)) return a.dropped == Dropped::product ? x * from<R>(0.0) : from<R>(0.0);
    return x / (from<R>(1.0) - from<R>(a.p));
  }
};

struct dropout::forward {
  enum { x, y, mask };
  static constexpr std::array tensors{in("x", "rows", "n"), out("y", "rows", "n"),
                                      out("mask", "rows", "n").as("boolean")};

  struct elements : elementwise_blocks<0, 1> {
    static constexpr std::array<int, 2> outputs{y, mask};

    template <class R, class Team, class Io>
    OPBOUND_HD static void define(const Team& team, const Problem<dropout>& p, const Io& io,
                                  std::int64_t block) {
      each(team, p.sizes, block, [&](std::int64_t i) {
        io.put(y, i, scaled(p.attributes, i, io.get(x, i)));
        io.put_index(mask, i, is_kept(p.attributes, i) ? 1 : 0);
      });
    }

    template <class T, class Team, class Io>
    OPBOUND_HD static void kernel(const Team& team, const Problem<dropout>& p, const Io& io,
                                  std::int64_t block) {
      const T share = kept_share<T>(p.attributes), scale = from<T>(1.0) / share;
      each(team, p.sizes, block, [&](std::int64_t i) {
        const bool kept = keeps(p.attributes, i);
        io.put(y, i, applied(p, kept, io.get(x, i), share, scale));
        io.put_index(mask, i, kept ? 1 : 0);
      });
    }
  };
  using parts = Parts<elements>;
};

/// Nothing is saved: the mask is made again.
struct dropout::backward {
  enum { dy, dx };
  static constexpr std::array tensors{in("dy", "rows", "n"), out("dx", "rows", "n")};

  struct elements : elementwise_blocks<0, 1> {
    static constexpr std::array<int, 1> outputs{dx};

    template <class R, class Team, class Io>
    OPBOUND_HD static void define(const Team& team, const Problem<dropout>& p, const Io& io,
                                  std::int64_t block) {
      each(team, p.sizes, block,
           [&](std::int64_t i) { io.put(dx, i, scaled(p.attributes, i, io.get(dy, i))); });
    }

    template <class T, class Team, class Io>
    OPBOUND_HD static void kernel(const Team& team, const Problem<dropout>& p, const Io& io,
                                  std::int64_t block) {
      const T share = kept_share<T>(p.attributes), scale = from<T>(1.0) / share;
      each(team, p.sizes, block, [&](std::int64_t i) {
        const bool kept = keeps(p.attributes, i);
        io.put(dx, i, applied(p, kept, io.get(dy, i), share, scale));
      });
    }
  };
  using parts = Parts<elements>;
};

}  // namespace opbound
