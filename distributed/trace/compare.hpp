// Two traces side by side: how far their gradients are apart at every step, what they were told
// differently, and which call made the difference. How far rounding alone carries them: band.hpp.
#pragma once

#include <cstdint>
#include <functional>
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
  bool has_same_rate = true;  ///< of learning
  /// One run skipped an update that the other did not, in this step or (for_each_distance) before:
  /// they are an update apart, which is no matter of rounding.
  bool has_parted = false;
  bool has_skipped = false;  ///< both skipped this step's update
  /// Mean KL divergence of the tokens after the prompts, in nats, and the share of prompts with the
  /// same most likely one; none: not both have them.
  std::optional<double> kl_nats, top1_share;

  bool has_same_bits() const;
};

/// Gradients are compared without their loss scales, which need not be the same.
StepDistance distance_of(const TraceStep& a, const TraceStep& b);

/// Steps that both have, in their order. Throws InputError where they are not of one model.
void for_each_distance(TraceFile& a, TraceFile& b,
                       const std::function<bool(const StepDistance&)>& take);

/// False where it is known that they do not.
bool have_same_text(const TraceHead& a, const TraceHead& b);

/// Do both compute the same, so that every bit has to agree? One version of opbound and its own
/// kernels, one spec but for what does not count (the number of steps where the learning rate does
/// not hang on it), one draw of the rounding, weights that travel alike between ranks, and a sum
/// over ranks that is reproducible or of the same ranks in the same sharding.
bool must_agree_in_bits(const TraceHead& a, const TraceHead& b);

/// What two runs differ in, in words: "policy.name fp32 / bf16".
std::vector<std::string> differences(const TraceHead& a, const TraceHead& b);

/// The first few of them, in a line.
std::string first_words(const std::vector<std::string>& differences);

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
