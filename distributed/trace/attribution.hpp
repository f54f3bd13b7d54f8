// From a run's error back to the calls that made it: which op, in which layer, by how much.
//
// Of one micro-batch that ran in low precision. L is the loss of the same calls in fp64 from the
// master weights, L' that of the run. Of every call, delta is what it put out less the fp64 op on
// what it read; of a parameter, what its calls read less the master weight. With a and a' the
// derivatives of the loss by that output, from exact (fp64) backward passes along the exact and
// along the run's values (bounds.md 12, P2),
//
//   L' - L = sum over calls and weights of <(a + a') / 2, delta> + third order in delta.
//
// Each term is the call's contribution. Whatever is not in their sum is printed as `unattributed`.
// Contributions have signs and cancel: they are measured against the root of the sum of their
// squares, over classes, never against their total.
//
// Replay checks this by other means: the deltas of one class alone are added to the exact run's
// values, and the loss is computed. It is also what attributes gradients, those of calls of the
// backward pass too: what a class's deltas do to each parameter's gradient. Swapping an op draws
// its rounding anew, and the rounding of all that follows: such differences do not add up.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "distributed/trace/capture.hpp"

namespace opbound::trace {

enum class Pass : std::uint8_t { weight, forward, backward };
inline constexpr std::array<std::string_view, 3> pass_names{"weight", "forward", "backward"};

/// Calls that are told together: of one part, in one layer, one pass and one precision.
struct CallClass {
  std::string part;           ///< as the policy names it: "matmul", "mlp:gelu", "cast"; "weight"
  std::string op;             ///< "weight": a parameter from its master format to that of its calls
  int layer = -1;             ///< -1: of no layer
  Pass pass = Pass::forward;  ///< backward: all calls behind the loss, recomputed ones too
  std::string precision;      ///< storage:compute:output; of a weight and a cast from:to

  bool operator==(const CallClass&) const = default;
};

struct ClassContribution {
  CallClass where;
  std::int64_t calls = 0;  ///< or parameters
  double loss = 0;         ///< <(a + a') / 2, delta>; 0 of the backward pass
  double loss_exact = 0;   ///< <a, delta>
  /// The standard deviation of `loss` if each element that errs was rounded once, to what it is
  /// stored in: root of the sum of (a v u)^2 / (8 ln 2). Sums that are stored in the format that
  /// they are made in round more often. Many times this is no rounding.
  double loss_expected = 0;
  std::optional<double> loss_replayed;  ///< L(exact + delta) - L
  /// |dG| / |G| over all parameters, of what its deltas alone do to the gradient.
  std::optional<double> gradient;
  /// <dG, G' - G> / |G' - G|^2: over all classes these add up to 1, less what is unattributed.
  std::optional<double> gradient_share;
};

/// How far a parameter's gradient lies from the fp64 one. All relative to the exact one's norm.
struct ParameterDeviation {
  std::string name;
  int layer = -1;
  double norm = 0;             ///< of the exact gradient
  double measured = 0;         ///< |G' - G|
  double predicted = 0;        ///< |sum of the classes' dG|
  double unattributed = 0;     ///< |G' - G - that sum|
  double root_of_squares = 0;  ///< of the classes' |dG|
  double largest = 0;          ///< sum of the classes' |dG|: none is larger, to first order

  bool is_within() const { return measured <= largest; }
};

/// Of all parameters together, relative to the exact gradient's norm, and of each.
struct GradientDeviation {
  double measured = 0, predicted = 0, unattributed = 0;  ///< as in ParameterDeviation
  std::vector<ParameterDeviation> parameters;
};

/// What the classes' replays say beside the measured differences.
struct ReplayResult {
  double loss = 0;              ///< sum over classes of L(exact + delta of the class) - L
  double largest_gap = 0;       ///< of a class's contribution from its replay, over root_of_squares
  double rank_correlation = 0;  ///< Spearman's, of contributions and replays; ties have mean ranks
  std::optional<GradientDeviation> gradient;  ///< none where the run's is not finite
};

/// Of one micro-batch of one step.
struct Attribution {
  std::int64_t step = 0, micro_batch = 0;
  double loss = 0, loss_exact = 0;  ///< L', L
  double predicted = 0;             ///< sum of contributions
  double predicted_exact = 0;       ///< the same with a alone (P1): |P1 - P2| is the second order
  double root_of_squares = 0;       ///< of contributions of classes
  std::vector<ClassContribution> classes;  ///< weights, then in the order of the calls
  std::optional<ReplayResult> replay;
  std::int64_t nonfinite = 0;  ///< elements of the run's gradient that are not
  std::int64_t changed = 0;    ///< as in Captured
  std::string first_changed;

  double measured() const { return loss - loss_exact; }
  double unattributed() const { return measured() - predicted; }
};

/// Bytes of host memory that attributing a micro-batch of this tape takes at most.
std::int64_t attribution_bytes(const ExactTape& exact, bool with_replay);

/// Gradients by parameter, times the loss scale.
struct GradientVectors {
  std::vector<Tensor> exact, low;     ///< G, G'
  std::vector<Tensor> predicted;      ///< sum of the classes' dG
  std::vector<double> class_norms;    ///< sum of the classes' |dG|
  std::vector<double> class_squares;  ///< and of their squares
  double loss_scale = 1;
};

/// Throws InputError where the run's loss is not finite: then nothing has a first order. `vectors`
/// are filled where the attribution has gradients.
Attribution attribute(const train::RunView& run, const ExactTape& exact, Captured& captured,
                      bool with_replay, GradientVectors* vectors = nullptr);

/// What the vectors say, relative to the exact gradients' norms.
GradientDeviation deviation_of(const train::Layout& layout, const GradientVectors& vectors);

/// Spearman's rank correlation; 1 of fewer than two pairs, or where both are constant.
double rank_correlation(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace opbound::trace
