// Layer normalisation (Ba, Kiros and Hinton 2016) over the last axis, forward and backward.
//
// Conditioning (bounds/README.md 2.1): an error of the mean is a common shift of the row's xhat,
// about H u mean|x| / sqrt(var + eps): it grows with |mean| / sigma. A second centring pass removes
// it. The one-pass variance errs by (mean / sigma)^2 u and more; that variant's bound says so.
//
// The order of a sum is the team's, not an algorithm of its own: pairwise or any other summation is
// judged by a contract that says "any order" or names its tree.
#pragma once

#include "ops/blocks.hpp"
#include "ops/definition.hpp"
#include "ops/normalization.hpp"
#include "ops/number.hpp"

namespace opbound {

struct layer_norm {
  static constexpr std::string_view name = "layer_norm";
  static constexpr std::string_view math =
      "y_j = xhat_j (weight_offset + gamma_j) + beta_j, xhat_j = (x_j - mean x) rstd, "
      "rstd = 1 / sqrt(mean (x - mean x)^2 + eps)";
  static constexpr std::array<std::string_view, 2> dims{"rows", "n"};

  enum class Affine : std::uint8_t { weight_and_bias, weight, none };
  struct Attributes {
    /// The definition adds eps as it stands here: what holding it in some format does to it is the
    /// kernel's error, and its bound pays for it. A kernel that keeps eps in fp16 unasked is so
    /// found by the bound of one that does not.
    double eps = 1e-5;
    double weight_offset = 0;   ///< 1: the weight is 1 + gamma
    Format eps_format = fp64;   ///< what eps is held in, beside the compute format
    Format xhat_format = fp64;  ///< what xhat is rounded to before the weight multiplies it
    Affine affine = Affine::weight_and_bias;
  };
  static constexpr auto attributes = std::tuple{
      field("eps", &Attributes::eps), field("weight_offset", &Attributes::weight_offset),
      field("eps_format", &Attributes::eps_format), field("xhat_format", &Attributes::xhat_format),
      choice("affine", &Attributes::affine, "weight_and_bias", "weight", "none")};

  enum { two_pass, reciprocal, recentred, welford, one_pass, scaled };
  static constexpr std::array variants{
      Variant{"two_pass", "m = (sum x) / n, var = (sum (x - m)^2) / n"},
      Variant{"reciprocal", "two passes, every mean a product with 1/n"},
      Variant{"recentred", "d = mean (x - m), then x - m - d takes the place of x - m"},
      Variant{"welford", "mean and squares merged, number by number and lane by lane"},
      Variant{"one_pass", "var = max(mean x^2 - m^2, 0), which cancels for |m| >> sigma"},
      Variant{"scaled", "two passes; dx = (n g - sum g - xhat sum(g xhat)) (rstd / n)"}};
  static constexpr std::string_view refuses(const Attributes& a, const Sizes&) {
    if (a.weight_offset != 0 && a.weight_offset != 1) return "a weight_offset of 0 or 1";
    return is_from(0, a.eps) ? "" : "eps of at least 0";
  }

  static constexpr bool has_tensor(const Attributes& a, std::string_view tensor) {
    if (tensor == "gamma" || tensor == "dgamma") return a.affine != Affine::none;
    if (tensor == "beta" || tensor == "dbeta") return a.affine == Affine::weight_and_bias;
    return true;
  }

  struct forward;
  struct backward;
};

}  // namespace opbound

#include "ops/layer_norm/backward.hpp"  // IWYU pragma: keep
#include "ops/layer_norm/forward.hpp"   // IWYU pragma: keep
