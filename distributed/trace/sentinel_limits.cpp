// Limits that the sentinel takes from no other run: of the norm, and of a trend.
#include <boost/math/distributions/students_t.hpp>
#include <cmath>

#include "bounds/growth.hpp"
#include "distributed/trace/sentinel.hpp"
#include "distributed/train/optimizer.hpp"
#include "ops/team.hpp"

namespace opbound::trace {

double norm_bound(double norm, double loss_scale, std::int64_t count, std::int64_t chunks,
                  const train::Policy& policy) {
  const train::OpRule rule = policy.rule("global_norm", -1);
  if (rule.variant == "plain") return HUGE_VAL;  // squares may over- and underflow
  const Format f = policy.rule("unscale", -1).precision.compute;
  constexpr std::int64_t shards = train::shards_of_a_norm;
  const bool is_own = rule.provider.empty() || rule.provider == "own";
  const std::int64_t height = is_own ? sum_height((count + shards - 1) / shards, team_width) +
                                           sum_height(shards, team_width) +
                                           sum_height(chunks, team_width)
                                     : count + chunks;
  const double eta = f.smallest_subnormal();
  const double relative = growth(static_cast<double>(height + 14), f.unit_roundoff()) +
                          static_cast<double>(count) * (0x1p-53 + eta);
  return relative * norm + static_cast<double>(chunks + 2) * eta / std::min(1.0, loss_scale);
}

Trend::Trend(double alpha, double comparisons)
    : quantile_(boost::math::quantile(boost::math::complement(
          boost::math::students_t(static_cast<double>(window - 1)), alpha / comparisons / 2))) {}

double Trend::take(double value) {
  double excess = 0;
  if (last_.size() == window) {
    constexpr auto n = static_cast<double>(window);
    double mean = 0, square = 0;
    for (const double x : last_) mean += x / n;
    for (const double x : last_) square += (x - mean) * (x - mean);
    const double limit = quantile_ * std::sqrt(square / (n - 1)) * std::sqrt(1 + 1 / n);
    // A window of equal values expects that value, and no ratio is one of them.
    excess = limit > 0 ? std::abs(value - mean) / limit : 0;
    if (!std::isfinite(value)) excess = HUGE_VAL;
    last_.pop_front();
  }
  if (std::isfinite(value)) last_.push_back(value);
  return excess;
}

}  // namespace opbound::trace
