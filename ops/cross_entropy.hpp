// Cross entropy of logits against one target a row, with label smoothing and ignored targets.
//
// Conventions, which every kernel is held to:
// - a target equal to ignore_index: loss 0 and gradient 0, whatever the logits are;
// - any other target outside the vocabulary: NaN, and so is all that it enters;
// - a row whose maximum is not finite (all masked by -infinity, a +infinity, a NaN): NaN, as the
//   formula with the maximum subtracted says. logsumexp gives the maximum itself there: it has no
//   x_t to subtract from it;
// - mean over ignored rows only: NaN (0 / 0); their sum: 0.
// The mean divides by the number of targets that are not ignored.
//
// Conditioning (bounds/README.md 3.1): where p_t -> 1 the loss is the small sum of all other terms,
// which 1 + tiny loses below 2^-24, and the target's gradient p_t - 1 cancels by 1 / (1 - p_t). The
// forms log1p and expm1 lose neither. Subtracting the target from lse itself costs u |lse|.
#pragma once

#include <limits>

#include "ops/blocks.hpp"
#include "ops/definition.hpp"
#include "ops/exact_reductions.hpp"
#include "ops/log_sum.hpp"
#include "ops/number.hpp"

namespace opbound {

struct cross_entropy {
  static constexpr std::string_view name = "cross_entropy";
  static constexpr std::string_view math =
      "loss = log sum_k exp(x_k) - sum_j q_j x_j, q_j = (1 - s) [j = target] + s / vocab; reduced: "
      "their sum, or mean over the targets that are not ignored";
  static constexpr std::array<std::string_view, 3> dims{"rows", "vocab", "one"};

  enum class Reduction : std::uint8_t { none, mean, sum };
  struct Attributes {
    Reduction reduction = Reduction::mean;
    std::int64_t ignore_index = -100;
    double label_smoothing = 0;
    bool recompute = false;  ///< the backward pass makes its own maximum and sum: no lse is saved
  };
  static constexpr auto attributes =
      std::tuple{choice("reduction", &Attributes::reduction, "none", "mean", "sum"),
                 field("ignore_index", &Attributes::ignore_index),
                 field("label_smoothing", &Attributes::label_smoothing),
                 field("recompute", &Attributes::recompute)};

  enum { log_of_sum, log1p_form, lse_minus_target, division, reciprocal };
  static constexpr std::array variants{
      Variant{"log_of_sum", "log S + (max - x_t), S = sum exp(x - max); backward exp(x - lse) - q"},
      Variant{
          "log1p",
          "log1p(S - 1) + (max - x_t), S - 1 summed over all but the largest, NaN where that is "
          "infinite; backward as "
          "log_of_sum, but expm1(x_t - lse) for p_t - 1"},
      Variant{"lse_minus_target", "(max + log S) - x_t; backward as log_of_sum"},
      Variant{"division", "log_of_sum; backward exp(x - max) / S - q"},
      Variant{"reciprocal", "log_of_sum; backward exp(x - max) * (1 / S) - q"}};
  static constexpr bool allows(const Attributes& a, int variant) {
    return a.recompute == (variant == division || variant == reciprocal);
  }

  static constexpr bool has_tensor(const Attributes& a, std::string_view tensor) {
    if (tensor == "lse") return !a.recompute;
    if (tensor == "dloss") return a.reduction == Reduction::none;
    if (tensor == "reduced" || tensor == "dreduced") return a.reduction != Reduction::none;
    return true;
  }
  static constexpr std::string_view refuses(const Attributes& a, const Sizes& s) {
    if (s[2] != 1) return "one = 1: the reduced loss is one number";
    if (!(a.label_smoothing >= 0 && a.label_smoothing <= 1)) return "a label_smoothing from 0 to 1";
    return {};
  }

  static constexpr std::string_view refuses_storage(const Format& f) {
    const bool is_for = f == fp64 || f == fp32 || f == bf16 || f == fp16;
    return is_for ? "" : "logits in fp64, fp32, bf16 or fp16";
  }

  struct forward;
  struct backward;

 private:
  template <class T>
  OPBOUND_HD static T not_a_number() {
    return from<T>(std::numeric_limits<double>::quiet_NaN());
  }

  // ---- definition

  /// What the reduced loss counts.
  template <class Io>
  OPBOUND_HD static std::int64_t defined_count(const Problem<cross_entropy>& p, const Io& io,
                                               int targets) {
    std::int64_t counted = 0;
    for (std::int64_t i = 0; i < p.sizes[0]; ++i)
      counted += io.index(targets, i) == p.attributes.ignore_index ? 0 : 1;
    return counted;
  }

  // ---- kernel

  template <class Team, class Io>
  OPBOUND_HD static std::int64_t counted_targets(const Team& team, const Problem<cross_entropy>& p,
                                                 const Io& io, int targets) {
    return count_of(team, p.sizes[0], [&](std::int64_t i) {
      return io.index(targets, i) != p.attributes.ignore_index;
    });
  }

  enum class Target : std::uint8_t { valid, ignored, outside };

  OPBOUND_HD static Target kind_of(const Problem<cross_entropy>& p, std::int64_t target) {
    if (target == p.attributes.ignore_index) return Target::ignored;
    return target >= 0 && target < p.sizes[1] ? Target::valid : Target::outside;
  }
};

}  // namespace opbound

#include "ops/cross_entropy/backward.hpp"  // IWYU pragma: export
#include "ops/cross_entropy/forward.hpp"   // IWYU pragma: export
