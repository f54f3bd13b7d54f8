// The sentinel of a run: three levels of checks while it trains, each with a limit that is derived
// or estimated with a stated rate of false alarms.
//
//   step         what a step computed with (texts, random numbers, the weights that the last one
//                left), gradients that are not finite, the norm that clipping used, and the
//                findings of audits
//   reference    fingerprints and losses against a reference run, within the limits of its twins,
//                or bit for bit where both compute the same
//   end to end   what the model says after the prompts, against the reference's, likewise
//   trend        norms and losses against their own past: suspicions, not alarms
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "distributed/trace/audit.hpp"
#include "distributed/trace/band.hpp"
#include "distributed/trace/tracer.hpp"

namespace opbound::trace {

/// Does a quantity leave what its own last values lead one to expect?
///
/// With mean m and standard deviation s of the last `window` values the next one is expected within
/// m +- t s sqrt(1 + 1 / window), t the quantile of Student's distribution at alpha over the
/// comparisons of a run (the prediction interval of normal values; Hahn and Meeker 1991, 4.2). A
/// training's values are neither normal nor independent nor stationary, and 50 of them can tell no
/// rate of one in thousands: one clean run in three had a value beyond (README.md). So what leaves
/// its interval is a reason to look, no more.
class Trend {
 public:
  static constexpr std::size_t window = 50;

  /// `comparisons`: of the whole run.
  Trend(double alpha, double comparisons);
  /// The value's excess over its limit, above 1: it is not expected. 0 until the window is full.
  double take(double value);

 private:
  double quantile_;
  std::deque<double> last_;
};

/// How far the norm that an update takes may be from the exact one, `norm`, of `count` elements
/// without the loss scale, where it is made of so many chunks' norms. Infinite: nothing is known.
///
/// Sums of squares have one sign, so that a sum of height h errs by a factor of at most (1 + u)^h
/// (Higham 2002, chapter 4), any order of n terms by (1 + u)^(n - 1). Our own kernel adds 64 shards
/// of a chunk by a team, then the chunks:
///
///   |computed - norm| <= ((1 + u)^k - 1 + count (2^-53 + eta)) norm + (chunks + 2) eta / s,
///   k = height(count / 64) + height(64) + height(chunks) + 14,  s = min(1, loss scale)
///
/// 14: of each of the two passes a quotient and its square (3), a root, two factors back; the loss
/// scale taken off (2). Beside it: the fingerprint's own sums in fp64, in any order; squares below
/// the smallest number eta, of values that were scaled to 1 at least; norms that are stored near
/// eta.
double norm_bound(double norm, double loss_scale, std::int64_t count, std::int64_t chunks,
                  const train::Policy& policy);

struct SentinelOptions {
  std::string reference;           ///< a trace; empty: none
  std::vector<std::string> twins;  ///< of the reference
  double alpha = 1e-3;             ///< of a false alarm of the reference's checks
  bool watches_norms = false;      ///< the trend of every parameter's norm, beside the loss's
  /// Told what is suspicious: in the settings, before the first step; in the trend.
  std::function<void(const std::string&)> on_note{};
};

/// Reads what the tracer and the audit that were given before it found.
class Sentinel final : public train::Observer {
 public:
  /// Throws InputError for a reference or twins that cannot be read, and `begin` for a reference
  /// that there is no limit to. The tracer and the audit,
  /// which may be null, outlive it and stand before it among the run's observers.
  Sentinel(SentinelOptions options, Tracer& tracer, Audit* audit);
  ~Sentinel() override;
  Sentinel(const Sentinel&) = delete;
  Sentinel& operator=(const Sentinel&) = delete;

  void begin(const train::RunView& run) override;
  void begin_step(std::int64_t step) override;
  void sample(std::int64_t step, std::int64_t micro_batch, train::Sample& sample) override;
  void gradient(std::int64_t step, std::int64_t micro_batch, std::byte* flat) override;
  void reduced(std::int64_t step) override;
  void normed(std::int64_t step, std::byte* norms, std::int64_t count, Element element) override;
  void updated(const train::StepResult& result) override;

  /// The weights were changed on purpose, as by going back to a checkpoint.
  void accept_state();

  /// All so far, on every rank the same, whichever rank found them.
  const std::vector<TraceEvent>& alarms() const;
  /// What the trend found: told, kept in the trace, and the next step is audited; no alarm.
  const std::vector<TraceEvent>& suspicions() const;
  /// "40 steps watched, no alarm"; steps that a run took again count again.
  std::string summary() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace opbound::trace
