// Residual connection: y = x + scale r, x and y being the stream that runs through all layers, r
// what a branch adds to it.
//
// The stream may be kept wider than the branch. In bf16 an r below 2^-9 |x| is lost: that is the
// store's error, which rule (A) accounts for, not the sum's.
#pragma once

#include "ops/blocks.hpp"
#include "ops/definition.hpp"
#include "ops/number.hpp"

namespace opbound {

struct residual {
  static constexpr std::string_view name = "residual";
  static constexpr std::string_view math = "y = x + scale r";
  static constexpr std::array<std::string_view, 1> dims{"n"};

  struct Attributes {
    double scale = 1;
    Format stream = fp32;  ///< what x and y are stored in
  };
  static constexpr auto attributes =
      std::tuple{field("scale", &Attributes::scale), field("stream", &Attributes::stream)};

  enum { product_and_sum, fused, rounded_product };
  static constexpr std::array variants{
      Variant{"product_and_sum", "x + (scale * r)"}, Variant{"fused", "fma(scale, r, x)"},
      Variant{"rounded_product", "x + (scale * r), the product stored as r is before it is added"}};

  struct forward;
  struct backward;
};

struct residual::forward {
  enum { x, r, y };
  static constexpr std::array tensors{in("x", "n").as("stream"), in("r", "n"),
                                      out("y", "n").as("stream")};

  struct elements : elementwise_blocks<0> {
    static constexpr std::array<int, 1> outputs{y};

    template <class R, class Team, class Io>
    OPBOUND_HD static void define(const Team& team, const Problem<residual>& p, const Io& io,
                                  std::int64_t block) {
      each(team, p.sizes, block, [&](std::int64_t i) {
        io.put(y, i, gauged_sum(io.get(x, i), from<R>(p.attributes.scale) * io.get(r, i)));
      });
    }

    template <class T, class Team, class Io>
    OPBOUND_HD static void kernel(const Team& team, const Problem<residual>& p, const Io& io,
                                  std::int64_t block) {
      const T scale = from<T>(p.attributes.scale);
      each(team, p.sizes, block, [&](std::int64_t i) {
        const T v = io.get(x, i), branch = io.get(r, i);
        if (p.variant == fused) {
          io.put(y, i, fma(scale, branch, v));
          return;
        }
        const T added = scale * branch;
        io.put(y, i, v + (p.variant == rounded_product ? stored_in(io.format(r), added) : added));
      });
    }
  };
  using parts = Parts<elements>;
};

/// dx = dy, dr = scale dy.
struct residual::backward {
  enum { dy, dx, dr };
  static constexpr std::array tensors{in("dy", "n"), out("dx", "n"), out("dr", "n")};

  struct elements : elementwise_blocks<0> {
    static constexpr std::array<int, 2> outputs{dx, dr};

    template <class R, class Team, class Io>
    OPBOUND_HD static void define(const Team& team, const Problem<residual>& p, const Io& io,
                                  std::int64_t block) {
      each(team, p.sizes, block, [&](std::int64_t i) {
        const R g = io.get(dy, i);
        io.put(dx, i, g);
        io.put(dr, i, g * from<R>(p.attributes.scale));
      });
    }

    template <class T, class Team, class Io>
    OPBOUND_HD static void kernel(const Team& team, const Problem<residual>& p, const Io& io,
                                  std::int64_t block) {
      const T scale = from<T>(p.attributes.scale);
      each(team, p.sizes, block, [&](std::int64_t i) {
        const T g = io.get(dy, i);
        io.put(dx, i, g);
        io.put(dr, i, scale * g);
      });
    }
  };
  using parts = Parts<elements>;
};

}  // namespace opbound
