// Gradient accumulation over micro-batches, in turn: sums, means, and means of unequal batches.
//
// In a type of p digits equal contributions stop counting at 2^p of them: 256 in bf16, 2048 in fp16
// (bounds/README.md 5.4). The mean of the micro-batches' means is not the mean over all tokens
// unless the batches have one size: that is a difference of the model, no rounding, so `weights`
// are part of the definition.
#pragma once

#include "ops/blocks.hpp"
#include "ops/definition.hpp"
#include "ops/number.hpp"

namespace opbound {

struct accumulate {
  static constexpr std::string_view name = "accumulate";
  static constexpr std::string_view math =
      "sum: y = sum_k c_k g_k; mean: y = sum_k c_k g_k / sum_k c_k; c_k = 1 unless weighted";
  static constexpr std::array<std::string_view, 2> dims{"micro_batches", "n"};

  enum class Reduction { sum, mean };
  struct Attributes {
    Reduction reduction = Reduction::mean;
    bool weighted = false;  ///< by the micro-batches' sizes
  };
  static constexpr auto attributes =
      std::tuple{choice("reduction", &Attributes::reduction, "sum", "mean"),
                 field("weighted", &Attributes::weighted)};

  enum { wide, stored, scaled_first, scaled_first_stored };
  static constexpr std::array variants{
      Variant{"wide", "added in the compute format, divided by sum c at the end"},
      Variant{"stored", "wide, the accumulator stored in the output format at every step"},
      Variant{"scaled_first", "sum of (c_k / sum c) g_k, as a loss that was divided gives"},
      Variant{"scaled_first_stored", "scaled_first, the accumulator stored at every step"}};
  static constexpr bool allows(const Attributes& a, int variant) {
    return a.reduction == Reduction::mean || variant == wide || variant == stored;
  }
  static constexpr std::string_view refuses(const Attributes& a, const Sizes& s) {
    return a.reduction == Reduction::mean && s[0] == 0 ? "micro_batches of at least 1" : "";
  }
  static constexpr bool has_tensor(const Attributes& a, std::string_view tensor) {
    return a.weighted || tensor != "weights";
  }

  struct forward {
    enum { g, weights, y };
    static constexpr std::array tensors{in("g", "micro_batches", "n"),
                                        in("weights", "micro_batches").as("fp32"), out("y", "n")};

    struct elements : elementwise_blocks<1>, sums_over<0> {
      static constexpr std::array<int, 1> outputs{y};

      template <class R, class Team, class Io>
      OPBOUND_HD static void define(const Team& team, const Problem<accumulate>& p, const Io& io,
                                    std::int64_t block) {
        const std::int64_t k = p.sizes[0], n = p.sizes[1];
        const Attributes& a = p.attributes;
        each(team, p.sizes, block, [&](std::int64_t i) {
          GaugedSum<R> sum;
          R size = from<R>(0.0);
          for (std::int64_t b = 0; b < k; ++b) {
            const R c = a.weighted ? io.get(weights, b) : from<R>(1.0);
            sum.add(c * io.get(g, b * n + i));
            size = size + c;
          }
          io.put(y, i, a.reduction == Reduction::sum ? sum : sum / size);
        });
      }

      template <class T, class Team, class Io>
      OPBOUND_HD static void kernel(const Team& team, const Problem<accumulate>& p, const Io& io,
                                    std::int64_t block) {
        const std::int64_t k = p.sizes[0], n = p.sizes[1];
        const Attributes& a = p.attributes;
        const auto weight = [&](std::int64_t b) { return io.get(weights, b); };
        const T size = a.weighted ? team.sum(k, weight) : from<T>(static_cast<double>(k));
        const bool scales_first = p.variant == scaled_first || p.variant == scaled_first_stored;
        const bool divides = a.reduction == Reduction::mean && !scales_first;
        each(team, p.sizes, block, [&](std::int64_t i) {
          const auto term = [&](std::int64_t b) {
            const T x = io.get(g, b * n + i);
            if (!scales_first) return a.weighted ? weight(b) * x : x;
            return a.weighted ? (weight(b) / size) * x : x / size;
          };
          const bool is_wide = p.variant == wide || p.variant == scaled_first;
          const T sum =
              is_wide ? team.serial_sum(k, term) : stored_sum<T>(io.format(y), k, divides, term);
          io.put(y, i, divides ? sum / size : sum);
        });
      }

      /// The micro-batches come one after the other, so their order is part of the algorithm: every
      /// kernel of it adds them so. The last sum is stored by whoever puts it, unless it goes on.
      template <class T, class F>
      OPBOUND_HD static T stored_sum(const Format& f, std::int64_t k, bool goes_on, F term) {
        T sum = from<T>(0.0);
        for (std::int64_t b = 0; b < k; ++b) {
          sum = sum + term(b);
          if (goes_on || b + 1 < k) sum = stored_in(f, sum);
        }
        return sum;
      }
    };
    using parts = Parts<elements>;
  };
};

}  // namespace opbound
