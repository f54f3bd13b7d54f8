// How far rounding alone carries a run from its reference, seen from the reference's twins.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "distributed/trace/compare.hpp"

namespace opbound::trace {

/// What several twins gave for some quantities (places) of a step that have either sign, and what a
/// further run may give.
///
/// Of m twins let d_i(s, p) be what the i-th has at step s and place p, and r(s) the root mean
/// square over twins and places. The d_i are taken as normal values around 0 of deviation
/// r(s) h(s, p), where h(s, p)^2 is the mean of (d_i / r)^2 over twins and the steps from s / 2 to
/// 2 s, at least to step 32: neighbouring steps are much alike. A further run then stays below
///
///   t r(s) h(s, p) sqrt(1 + 1 / m)
///
/// but with probability alpha over all steps and places, t being Student's quantile at alpha
/// divided among the comparisons (Bonferroni), of either sign. Everything that one twin gives
/// counts as one draw, for where rounding takes a run is decided once; and twins of unlike spread
/// count as fewer, by Satterthwaite's degrees of freedom (1946), which are between 1 and m:
///
///   (sum_i a_i)^2 / sum_i a_i^2,  a_i the sum of (d_i / r)^2 over these steps and all places.
///
/// Not so the logarithms of distances, of which a short one is as far away as a long one: limits of
/// them (one deviation of all parameters, (m - 1) degrees of freedom of each) called 2% to 14% of
/// clean runs an alarm where 0.1% was said. README.md has what these give.
class Amplitudes {
 public:
  /// Finite values of one twin, one for each place.
  void take(std::size_t twin, std::int64_t step, std::span<const double> values);
  void finish(double alpha);
  /// Infinite where fewer than two twins have the step.
  double limit(std::int64_t step, std::size_t place) const;
  /// The smallest one of a step's places.
  double least_limit(std::int64_t step) const;
  /// r(s), and the degrees of freedom; 0 where no twin has the step.
  double spread(std::int64_t step) const;
  double freedom(std::int64_t step) const;

 private:
  struct At {
    std::vector<double> squares;  ///< by place, summed over twins
    std::vector<double> of_twin;  ///< by twin, summed over places
    std::size_t twins = 0;
    double mean = 0;                        ///< r(s)^2
    std::vector<double> by_place, by_twin;  ///< of (d / r)^2, up to and with this step
    double values = 0;                      ///< of a place, up to and with this step
    double freedom = 0, quantile = 0;
  };
  using Steps = std::map<std::int64_t, At>;
  /// The last step before s's window, or none, and the last one of it.
  std::pair<const At*, const At*> window(std::int64_t step) const;
  void set_means();
  void add_up();
  void set_quantiles(double alpha);

  Steps steps_;
};

/// The limits of a reference's twins: of every parameter's distance, of the loss's difference, and
/// of the root of the prompts' mean KL divergence. Each has a third of alpha.
class Band {
 public:
  /// Reads the distances of all twins, each as far as it updated when the reference did and as its
  /// distances are finite. Throws InputError for fewer than two, and where they are not runs of the
  /// reference's spec and text, or one of them twice.
  Band(TraceFile& reference, const std::vector<std::string>& twins, double alpha);

  /// Infinite where fewer than two twins have the step.
  double limit(std::int64_t step, std::size_t parameter) const {
    return gradient_.limit(step, parameter);
  }
  /// No distance reaches its limit there: none is above 2 (|a - b| <= 2 max(|a|, |b|)).
  bool is_idle(std::int64_t step) const { return gradient_.least_limit(step) >= 2; }
  double loss_limit(std::int64_t step) const { return loss_.limit(step, 0); }
  double kl_limit(std::int64_t step) const;
  double alpha() const { return alpha_; }
  /// With a dynamic loss scale rounding may decide which updates are skipped. From the first one
  /// that only one of the two skipped the twins say nothing.
  bool has_parted(const StepDistance& d) const { return is_dynamic_ && d.has_parted; }
  bool is_dynamic() const { return is_dynamic_; }
  /// Of the gradients: the twins' root mean square distance, and how many of them it is worth.
  double spread(std::int64_t step) const { return gradient_.spread(step); }
  double freedom(std::int64_t step) const { return gradient_.freedom(step); }

 private:
  double alpha_;
  bool is_dynamic_ = false;
  Amplitudes gradient_, loss_, kl_;
};

/// What a comparison with a reference finds at a step.
struct Excess {
  std::int64_t step = 0;
  std::size_t parameter = 0;  ///< the one that is farthest above its limit
  double distance = 0, limit = 0;
};

/// Nothing where all parameters are within, or where the runs have parted. Without a band runs have
/// to agree in every bit.
std::optional<Excess> excess_of(const StepDistance& d, const Band* band);

}  // namespace opbound::trace
