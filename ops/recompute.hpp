// Activation checkpointing: the forward pass keeps only its input, and the backward pass runs the
// block again from it. The block is a GELU with a gain for each column, y = gain gelu(x).
//
// What the input is kept in is the whole question (bounds/README.md 7). A format that holds it
// gives the bits of a backward pass without checkpointing. Any other rounds it:
// |gelu(x') - gelu(x)| <= 1.1290 |x' - x| and |gelu'(x') - gelu'(x)| <= 0.7979 |x' - x|, which the
// running bound finds by itself (tests/test_recompute.cpp). backward_local takes the kept input as
// exact; backward_full counts its rounding.
#pragma once

#include "ops/blocks.hpp"
#include "ops/definition.hpp"
#include "ops/gelu.hpp"

namespace opbound {

struct recompute {
  static constexpr std::string_view name = "recompute";
  static constexpr std::string_view math =
      "y[r, c] = gain[c] gelu(x[r, c]), its backward pass from the kept x";
  static constexpr std::array<std::string_view, 2> dims{"rows", "n"};

  struct Attributes {
    Format stored_format = bf16;  ///< what x is kept in
  };
  static constexpr auto attributes = std::tuple{field("stored_format", &Attributes::stored_format)};

  enum { erfc_form, one_plus_erf };
  static_assert(erfc_form == static_cast<int>(gelu::erfc_form) &&
                one_plus_erf == static_cast<int>(gelu::one_plus_erf));
  static constexpr std::array variants{gelu::variants[gelu::erfc_form],
                                       gelu::variants[gelu::one_plus_erf]};

  struct forward;
  struct backward;

 private:
  /// Phi(x), over the reals.
  template <class R>
  OPBOUND_HD static R distribution(R x) {
    return erfc(-(x / sqrt(from<R>(2.0)))) / from<R>(2.0);
  }
  /// x phi(x), over the reals.
  template <class R>
  OPBOUND_HD static R weighted_density(R x) {
    return x * exp(-(x * x / from<R>(2.0))) / sqrt(from<R>(2.0) * pi<R>());
  }
};

struct recompute::forward {
  enum { x, gain, y, kept };
  static constexpr std::array tensors{in("x", "rows", "n"), in("gain", "n"), out("y", "rows", "n"),
                                      out("kept", "rows", "n").as("stored_format")};

  struct elements : elementwise_blocks<0, 1> {
    static constexpr std::array<int, 2> outputs{y, kept};

    template <class R, class Team, class Io>
    OPBOUND_HD static void define(const Team& team, const Problem<recompute>& p, const Io& io,
                                  std::int64_t block) {
      each(team, p.sizes, block, [&](std::int64_t i) {
        const R v = io.get(x, i);
        io.put(y, i, io.get(gain, i % p.sizes[1]) * (v * distribution(v)));
        io.put(kept, i, v);
      });
    }

    template <class T, class Team, class Io>
    OPBOUND_HD static void kernel(const Team& team, const Problem<recompute>& p, const Io& io,
                                  std::int64_t block) {
      each(team, p.sizes, block, [&](std::int64_t i) {
        const T v = io.get(x, i);
        io.put(y, i,
               io.get(gain, i % p.sizes[1]) * gelu::forward::elements::value<T>(p.variant, v));
        io.put(kept, i, v);
      });
    }
  };
  using parts = Parts<elements>;
};

/// dx = dy gain gelu'(x), dgain = sum over the rows of dy gelu(x), with the kept x.
struct recompute::backward {
  enum { kept, gain, dy, dx, dgain };
  static constexpr std::array tensors{saved("kept", "rows", "n"), in("gain", "n"),
                                      in("dy", "rows", "n"), out("dx", "rows", "n"),
                                      out("dgain", "n")};

  struct elements : elementwise_blocks<0, 1> {
    static constexpr std::array<int, 1> outputs{dx};

    template <class R, class Team, class Io>
    OPBOUND_HD static void define(const Team& team, const Problem<recompute>& p, const Io& io,
                                  std::int64_t block) {
      each(team, p.sizes, block, [&](std::int64_t i) {
        const R v = io.get(kept, i), g = io.get(dy, i) * io.get(gain, i % p.sizes[1]);
        io.put(dx, i, g * gauged_sum(distribution(v), weighted_density(v)));
      });
    }

    template <class T, class Team, class Io>
    OPBOUND_HD static void kernel(const Team& team, const Problem<recompute>& p, const Io& io,
                                  std::int64_t block) {
      each(team, p.sizes, block, [&](std::int64_t i) {
        const T slope = gelu::backward::elements::derivative<T>(p.variant, io.get(kept, i));
        io.put(dx, i, (io.get(dy, i) * io.get(gain, i % p.sizes[1])) * slope);
      });
    }
  };

  struct columns : blocks_along<1>, sums_over<0> {
    static constexpr std::array<int, 1> outputs{dgain};

    template <class R, class Team, class Io>
    OPBOUND_HD static void define(const Team&, const Problem<recompute>& p, const Io& io,
                                  std::int64_t c) {
      const std::int64_t rows = p.sizes[0], n = p.sizes[1];
      io.put(dgain, c, gauged_sum_of<R>(rows, [&](std::int64_t r) {
               const R v = io.get(kept, r * n + c);
               return io.get(dy, r * n + c) * (v * distribution(v));
             }));
    }

    template <class T, class Team, class Io>
    OPBOUND_HD static void kernel(const Team& team, const Problem<recompute>& p, const Io& io,
                                  std::int64_t c) {
      const std::int64_t rows = p.sizes[0], n = p.sizes[1];
      const T total = team.sum(rows, [&](std::int64_t r) {
        const T v = io.get(kept, r * n + c);
        return io.get(dy, r * n + c) * gelu::forward::elements::value<T>(p.variant, v);
      });
      team.map(1, [&](std::int64_t) { io.put(dgain, c, total); });
    }
  };
  using parts = Parts<elements, columns>;
};

}  // namespace opbound
