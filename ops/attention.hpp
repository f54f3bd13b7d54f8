// Scaled dot-product attention: o_i = sum_j softmax_j(scale q_i . k_j + bias_ij) v_j.
//
// Heads of queries share heads of keys (grouped-query attention): head h reads key head
// h / (heads / kv_heads). A batch is more heads. A row all of whose keys are masked gives o = 0 and
// lse = -infinity, and no gradient. A key is masked by causality, by a mask's `false`, or by a bias
// of -infinity.
#pragma once

#include "ops/blocks.hpp"
#include "ops/definition.hpp"
#include "ops/number.hpp"

namespace opbound {

struct attention {
  static constexpr std::string_view name = "attention";
  static constexpr std::string_view math =
      "s_ij = scale q_i . k_j + bias_ij, p_ij = exp(s_ij - lse_i), lse_i = log sum_j exp(s_ij), "
      "o_i = sum_j p_ij v_j; scale = 0 is 1 / sqrt(d); mask = causal: query i sees the keys up to "
      "i + keys - queries (causal_from = last_key), or up to i (first_key)";
  static constexpr std::array<std::string_view, 5> dims{"heads", "kv_heads", "queries", "keys",
                                                        "d"};

  enum class Mask { none, causal, additive, boolean };
  enum class Causal { last_key, first_key };
  enum class RowTerm { stored_o, p_dp };
  struct Attributes {
    Mask mask = Mask::none;
    Causal causal_from = Causal::last_key;  ///< what the last, or the first, query's last key is
    double scale = 0;                       ///< 0: 1 / sqrt(d)
    Format p_format = fp64;                 ///< P before P V and P^T dO; fp64: as computed
    Format ds_format = fp64;                ///< dS before dS K and dS^T Q; the same
    RowTerm row_term = RowTerm::stored_o;   ///< D = sum dO O, or sum P dP
    std::int64_t tile = 64;                 ///< keys in a tile of the online variants
  };
  static constexpr auto attributes =
      std::tuple{choice("mask", &Attributes::mask, "none", "causal", "additive", "boolean"),
                 choice("causal_from", &Attributes::causal_from, "last_key", "first_key"),
                 field("scale", &Attributes::scale),
                 field("p_format", &Attributes::p_format),
                 field("ds_format", &Attributes::ds_format),
                 choice("row_term", &Attributes::row_term, "stored_o", "p_dp"),
                 field("tile", &Attributes::tile)};

  enum { whole_row, online, online_exp2, normalized_first };
  static constexpr std::array variants{
      Variant{"whole_row", "max over all keys, then exp(s - max), their sum, P V / sum"},
      Variant{"online", "tile by tile, earlier sums rescaled by exp(old max - new max)"},
      Variant{"online_exp2",
              "the same with exp2(fma(q . k, c, -(max c))), c = scale log2 e, times 1 / sum at the "
              "end"},
      Variant{"normalized_first",
              "P = softmax of the row, each weight divided by the sum; then P V"}};
  static constexpr bool allows(const Attributes& a, int variant) {
    return variant != online_exp2 || a.mask != Mask::additive;
  }
  static constexpr bool has_tensor(const Attributes& a, std::string_view tensor) {
    if (tensor == "bias") return a.mask == Mask::additive;
    if (tensor == "mask") return a.mask == Mask::boolean;
    return true;
  }
  static constexpr std::string_view refuses(const Attributes& a, const Sizes& s) {
    if (a.tile < 1) return "a tile of at least 1";
    if (!is_from(0, a.scale)) return "a scale of at least 0 (0: 1 / sqrt(d))";
    return s[1] == 0 ? (s[0] == 0 ? "" : "kv_heads of at least 1")
                     : (s[0] % s[1] == 0 ? "" : "heads a multiple of kv_heads");
  }

  struct forward;
  struct backward;
};

}  // namespace opbound

#include "ops/attention/backward.hpp"  // IWYU pragma: export
#include "ops/attention/forward.hpp"   // IWYU pragma: export
