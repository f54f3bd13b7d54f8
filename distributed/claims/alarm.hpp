// Rules that are in use as alarms of a training run, as their authors state them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "distributed/claims/training_lab.hpp"

namespace opbound::claims {

/// What fires:
///   norm_change    a parameter's gradient norm moved by more than `limit` against the last step
///   weight_drift   a parameter's norm left its first value by more than `limit`
///   close          a parameter is not within atol = limit, rtol = 1e-3 of the reference's; only
///                  the end of the run is asked
///   cosine         the log norms' cosine with the reference's is below `limit`
///   loss_deviation the standard deviation of the last `window` losses is above `limit`
///   variation      a parameter's norm varies by more than `limit` of its mean in five windows of
///                  `window` steps one after the other
struct Rule {
  std::string name;
  double limit = 0;
  std::int64_t window = 1;
};

/// Does it fire, step by step? Throws InputError for a rule that is none.
std::vector<bool> alarms(const Rule& rule, const Trajectory& run, const Trajectory& reference);

/// The first step from `from` on at which it fires; infinity if there is none.
double first_of(const std::vector<bool>& fires, std::int64_t from);

/// log10 of every parameter's gradient norm at a step, norms below 1e-8 taken as that: the
/// article's vector.
std::vector<double> log_norms(const Trajectory& run, std::size_t step);

}  // namespace opbound::claims
