// Rotary position embedding (Su et al. 2021, "RoFormer"): pairs of a head's first 2 pairs elements
// are turned by angles that grow with the token's position; the rest passes through.
//
// Two ways of stating it. With `tables` the cosines and sines are inputs and only the rotation is
// judged. With `computed` the angle is part of the kernel: position * frequency has the relative
// error of its format, so the phase is wrong by about position * u radians. In bf16 positions above
// 256 are not even distinct, and the bound says so.
#pragma once

#include "ops/blocks.hpp"
#include "ops/definition.hpp"
#include "ops/number.hpp"

namespace opbound {

struct rope {
  static constexpr std::string_view name = "rope";
  static constexpr std::string_view math =
      "(y_a, y_b) = (x_a cos t - x_b sin t, x_a sin t + x_b cos t), t = position base^(-i / pairs) "
      "for the i-th pair (a, b)";
  static constexpr std::array<std::string_view, 5> dims{"tokens", "heads", "d", "pairs", "context"};

  enum class Pairing { halves, interleaved };
  enum class Angles { computed, tables };
  struct Attributes {
    Pairing pairing = Pairing::halves;
    Angles angles = Angles::computed;
    bool indexed = false;     ///< the tensor `positions` says where each token stands
    std::int64_t offset = 0;  ///< else: the first token's position
    double base = 10000;
    Format table_format = fp32;  ///< what cosines and sines are stored in before they are used
  };
  static constexpr auto attributes =
      std::tuple{choice("pairing", &Attributes::pairing, "halves", "interleaved"),
                 choice("angles", &Attributes::angles, "computed", "tables"),
                 field("indexed", &Attributes::indexed),
                 field("offset", &Attributes::offset),
                 field("base", &Attributes::base),
                 field("table_format", &Attributes::table_format)};

  enum { products, fused };
  static constexpr std::array variants{
      Variant{"products", "x_a c - x_b s, x_a s + x_b c"},
      Variant{"fused", "fma(x_a, c, -(x_b s)), fma(x_a, s, x_b c)"}};

  static constexpr bool has_tensor(const Attributes& a, std::string_view tensor) {
    if (tensor == "positions") return a.indexed;
    if (tensor == "cos" || tensor == "sin") return a.angles == Angles::tables;
    return true;
  }
  static constexpr std::string_view refuses(const Attributes& a, const Sizes& s) {
    if (!(a.base > 0)) return "base must be positive";
    if (s[2] % 2 != 0) return "d must be even";
    if (2 * s[3] > s[2]) return "pairs must be at most d / 2";
    if (a.indexed && a.offset != 0) return "an offset does not go with the tensor positions";
    if (a.angles == Angles::tables && !a.indexed && (a.offset < 0 || a.offset + s[0] > s[4]))
      return "context must hold the offset and all tokens";
    return {};
  }

  struct forward;
  struct backward;

 private:
  // ---- definition

  /// t = position base^(-i / pairs)
  template <class R>
  OPBOUND_HD static R angle(const Problem<rope>& p, std::int64_t position, std::int64_t i) {
    const R share = from<R>(static_cast<double>(i)) / from<R>(static_cast<double>(p.sizes[3]));
    return from<R>(static_cast<double>(position)) * exp(-(share * log(from<R>(p.attributes.base))));
  }

  /// Element j of a head is the first or the second of the i-th pair, its partner the other one.
  struct Member {
    std::int64_t i, partner;
    bool is_second;
  };
  OPBOUND_HD static Member member(const Problem<rope>& p, std::int64_t j) {
    const std::int64_t pairs = p.sizes[3];
    if (p.attributes.pairing == Pairing::interleaved)
      return j % 2 == 0 ? Member{j / 2, j + 1, false} : Member{j / 2, j - 1, true};
    return j < pairs ? Member{j, j + pairs, false} : Member{j - pairs, j - pairs, true};
  }

  // ---- kernel

  /// Where a pair's two elements stand in its head.
  struct Pair {
    std::int64_t a, b;
  };
  OPBOUND_HD static Pair pair_of(const Problem<rope>& p, std::int64_t i) {
    return p.attributes.pairing == Pairing::halves ? Pair{i, i + p.sizes[3]}
                                                   : Pair{2 * i, 2 * i + 1};
  }

  /// With tables, a token outside of them is not turned.
  OPBOUND_HD static bool is_turned(const Problem<rope>& p, std::int64_t position) {
    return p.attributes.angles == Angles::computed || (position >= 0 && position < p.sizes[4]);
  }

  template <class T>
  struct Turn {
    T cosine, sine;
  };

  /// One inverse frequency a pair, times the position.
  template <class T>
  OPBOUND_HD static T computed_angle(const Problem<rope>& p, std::int64_t position,
                                     std::int64_t i) {
    const T exponent = from<T>(static_cast<double>(-i)) / from<T>(static_cast<double>(p.sizes[3]));
    const T frequency = exp(exponent * log(from<T>(p.attributes.base)));
    return from<T>(static_cast<double>(position)) * frequency;
  }

  /// Both passes have their tensors at the same places: what is turned, and what comes out of it.
  enum { source, cosines, sines, positions, result };

 public:
  /// A head of a token; the inverse turns back.
  template <bool inverse>
  struct heads : blocks_along<0, 1> {
    static constexpr std::array<int, 1> outputs{result};
    OPBOUND_HD static std::int64_t longest_sum(const Sizes&) { return 2; }

    template <class R, class Team, class Io>
    OPBOUND_HD static void define(const Team& team, const Problem<rope>& p, const Io& io,
                                  std::int64_t block) {
      const Attributes& a = p.attributes;
      const std::int64_t d = p.sizes[2], pairs = p.sizes[3], token = block / p.sizes[1];
      const std::int64_t position = a.indexed ? io.index(positions, token) : token + a.offset;
      const bool has_table = a.angles == Angles::tables;
      const bool stays = has_table && !(0 <= position && position <= p.sizes[4] - 1);
      team.map(d, [&](std::int64_t j) {
        const R x = io.get(source, block * d + j);
        if (stays || j >= 2 * pairs) return io.put(result, block * d + j, x);
        const Member m = member(p, j);
        const R other = io.get(source, block * d + m.partner);
        const R t = has_table ? from<R>(0.0) : angle<R>(p, position, m.i);
        const R c = has_table ? io.get(cosines, position * pairs + m.i) : cos(t);
        const R s = has_table ? io.get(sines, position * pairs + m.i) : sin(t);
        // the first one's sine counts negative, and the inverse turns it round
        io.put(result, block * d + j,
               gauged_sum(x * c, m.is_second == inverse ? -(other * s) : other * s));
      });
    }

    template <class Io>
    OPBOUND_HD static std::int64_t position_of(const Problem<rope>& p, const Io& io,
                                               std::int64_t block) {
      const std::int64_t token = block / p.sizes[1];
      return p.attributes.indexed ? io.index(positions, token) : p.attributes.offset + token;
    }

    /// Elements of the head that are copied: those behind the pairs, or all.
    template <class Team, class Io>
    OPBOUND_HD static void copy(const Team& team, const Problem<rope>& p, const Io& io,
                                std::int64_t block, std::int64_t from) {
      const std::int64_t d = p.sizes[2], first = block * d + from;
      team.map(d - from,
               [&](std::int64_t j) { io.put(result, first + j, io.get(source, first + j)); });
    }

    template <class T, class Team, class Io>
    OPBOUND_HD static void kernel(const Team& team, const Problem<rope>& p, const Io& io,
                                  std::int64_t block) {
      const std::int64_t position = position_of(p, io, block), pairs = p.sizes[3];
      if (!is_turned(p, position)) return copy(team, p, io, block, 0);
      copy(team, p, io, block, 2 * pairs);
      team.map(pairs, [&](std::int64_t i) {
        const Pair pair = pair_of(p, i);
        const std::int64_t first = block * p.sizes[2];
        const Turn<T> turn = turn_of<T>(p, io, position, i);
        const T a = io.get(source, first + pair.a), b = io.get(source, first + pair.b);
        if (p.variant == fused) {
          io.put(result, first + pair.a, fma(a, turn.cosine, -(b * turn.sine)));
          io.put(result, first + pair.b, fma(a, turn.sine, b * turn.cosine));
        } else {
          io.put(result, first + pair.a, a * turn.cosine - b * turn.sine);
          io.put(result, first + pair.b, a * turn.sine + b * turn.cosine);
        }
      });
    }

    template <class T, class Io>
    OPBOUND_HD static Turn<T> turn_of(const Problem<rope>& p, const Io& io, std::int64_t position,
                                      std::int64_t i) {
      if (p.attributes.angles == Angles::tables) {
        const std::int64_t entry = position * p.sizes[3] + i;
        const T s = io.get(sines, entry);
        return {io.get(cosines, entry), inverse ? -s : s};
      }
      const T t = computed_angle<T>(p, position, i);
      const T c = stored_in(p.attributes.table_format, cos(t));
      const T s = stored_in(p.attributes.table_format, sin(t));
      return {c, inverse ? -s : s};
    }
  };
};

struct rope::forward {
  static constexpr std::array tensors{
      in("x", "tokens", "heads", "d"), in("cos", "context", "pairs").as("table_format"),
      in("sin", "context", "pairs").as("table_format"), index("positions", "context", "tokens"),
      out("y", "tokens", "heads", "d")};
  using parts = Parts<heads<false>>;
};

/// The inverse turn of dy: it needs neither x nor y.
struct rope::backward {
  static constexpr std::array tensors{
      in("dy", "tokens", "heads", "d"), in("cos", "context", "pairs").as("table_format"),
      in("sin", "context", "pairs").as("table_format"), index("positions", "context", "tokens"),
      out("dx", "tokens", "heads", "d")};
  using parts = Parts<heads<true>>;
};

}  // namespace opbound
