// Two traces side by side: how far their gradients are apart at every step, and how far rounding
// alone would carry them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "distributed/trace/trace.hpp"

namespace opbound::trace {

/// What two runs' gradients of one step are apart.
struct StepDistance {
  std::int64_t step = 0;
  /// `distance` of the sketches, by parameter; of gradients without their loss scales.
  std::vector<double> parameters;
  std::vector<std::uint8_t> differs;  ///< in bits, by parameter
  double loss = 0;                    ///< |difference|
  double cosine = 1;                  ///< of all sketches, one after the other
  bool has_same_samples = true, has_same_randomness = true, has_same_loss = true;
  /// Mean KL divergence of the tokens after the prompts, in nats, and the share of prompts with the
  /// same most likely one; none: not both have them.
  std::optional<double> kl_nats, top1_share;

  bool has_same_bits() const;
};

StepDistance distance_of(const TraceStep& a, const TraceStep& b);

/// Steps that both have, in their order. Throws InputError where they are not of one model.
void for_each_distance(TraceFile& a, TraceFile& b,
                       const std::function<bool(const StepDistance&)>& take);

/// How far rounding alone carries a run from its reference, seen from the reference's twins.
///
/// At step s and of parameter p let d_i be the distance of twin i of m. Logarithms of distances
/// are taken as normal with a mean of their own at each (s, p) and a standard deviation sigma(s),
/// pooled over the parameters and the steps from s / 2 to 2 s, at least to step 32: it grows while
/// a few directions come to stand out. A further run of the same computation then stays below
///
///   exp(mean_i log d_i + t sigma(s) sqrt(1 + 1 / m))
///
/// but with probability alpha over all steps and parameters: the prediction limit of Student's t
/// (for instance Hahn and Meeker 1991, 4.8), alpha divided among the comparisons (Bonferroni). Its
/// degrees of freedom count parameters as independent and steps as not: (m - 1) parameters. Neither
/// is quite so; README.md has what twins that no limit was made of gave.
class Band {
 public:
  /// Reads the distances of all twins. Throws InputError for fewer than two, and where they are not
  /// runs of the reference's spec.
  Band(TraceFile& reference, const std::vector<std::string>& twins, double alpha);

  /// Infinite where no twin has the step.
  double limit(std::int64_t step, std::size_t parameter) const;
  /// Of the loss's difference: t r(s) sqrt(1 + 1 / m), where r(s) is the root mean square of the
  /// twins' differences from step s / 2 to 2 s, at least to step 32, and t has m degrees of
  /// freedom, as if all steps of a twin were one draw of a normal value.
  double loss_limit(std::int64_t step) const;
  double alpha() const { return alpha_; }
  /// Of the prompts' mean KL divergence, by the same rule for its root; infinite where no twin has
  /// it.
  double kl_limit(std::int64_t step) const;
  /// sigma of a step.
  double deviation(std::int64_t step) const;

 private:
  /// Logarithms of one quantity's distances, at [step][place].
  struct Spread {
    std::vector<std::vector<double>> sums;  ///< over twins
    std::vector<std::vector<double>> squares;
    std::vector<std::size_t> counts;  ///< twins, by step
    std::vector<double> sigma;        ///< by step
    double quantile = 0;

    void take(std::int64_t step, const std::vector<double>& distances);
    void finish(std::size_t twins, double alpha);
    double limit(std::int64_t step, std::size_t place) const;
  };

  /// One quantity of a step that is of either sign, or the root of one that is quadratic.
  struct Amplitude {
    std::map<std::int64_t, double> squares;  ///< summed over twins, by step
    double quantile = 0;

    void take(std::int64_t step, double amplitude) { squares[step] += amplitude * amplitude; }
    void finish(std::size_t twins, double alpha);
    double limit(std::int64_t step, std::size_t twins) const;
  };

  double alpha_;
  std::size_t twins_;
  Spread gradient_;
  Amplitude loss_, kl_;
};

/// What a comparison with a reference finds at a step.
struct Excess {
  std::int64_t step = 0;
  std::size_t parameter = 0;  ///< the one that is farthest above its limit
  double distance = 0, limit = 0;
};

/// Nothing where all parameters are within. Without a band runs have to agree in every bit.
std::optional<Excess> excess_of(const StepDistance& d, const Band* band);

/// Do both compute the same, so that every bit has to agree? Own kernels, one policy, and one that
/// is reproducible or the same number of ranks.
bool must_agree_in_bits(const TraceHead& a, const TraceHead& b);

/// What two runs differ in, in words: "policy.name fp32 / bf16".
std::vector<std::string> differences(const TraceHead& a, const TraceHead& b);

/// A call that gave two runs other bits although it read the same ones.
struct FirstCall {
  CallBits bits;
  TraceCall a, b;
};

/// The first one of a step whose bits both traces have; calls are matched by phase, layer, part, op
/// and direction, in their order.
std::optional<FirstCall> first_differing_call(TraceFile& a, TraceFile& b, std::int64_t step);

/// Why two runs' first differing call differs.
enum class Cause : std::uint8_t { format, algorithm, provider, order, fault };
inline constexpr std::array<std::string_view, 5> cause_words{
    "format: the call is stored or computed in other formats",
    "algorithm: the call runs another variant",
    "provider: another kernel, whose order of sums is its own",
    "order: the sum over ranks is in another order",
    "fault: the same kernel gave other bits from the same inputs"};
Cause cause_of(const FirstCall& call, const TraceHead& a, const TraceHead& b);

}  // namespace opbound::trace
