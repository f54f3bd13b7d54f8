#include "distributed/claims/alarm.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reports/error.hpp"

namespace opbound::claims {
namespace {

bool norm_changes(const Rule& rule, const Trajectory& run, std::size_t step) {
  if (step == 0) return false;
  for (std::size_t p = 0; p < run.parameters.size(); ++p) {
    const double before = run.gradient_norms[step - 1][p], now = run.gradient_norms[step][p];
    if (before > 0 && std::abs(now / before - 1) > rule.limit) return true;
  }
  return false;
}

bool weights_drift(const Rule& rule, const Trajectory& run, std::size_t step) {
  for (std::size_t p = 0; p < run.parameters.size(); ++p) {
    const double first = run.weight_norms.front()[p], now = run.weight_norms[step][p];
    if (first > 0 && std::abs(now / first - 1) > rule.limit) return true;
  }
  return false;
}

/// As torch.testing.assert_close asks: |a - b| <= atol + rtol |b| for every element.
bool is_apart(const Rule& rule, const Trajectory& run, const Trajectory& reference) {
  constexpr double rtol = 1e-3;  // the article's
  const std::vector<double> a = flat(run.weights), b = flat(reference.weights);
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!(std::abs(a[i] - b[i]) <= rule.limit + rtol * std::abs(b[i]))) return true;
  return false;
}

bool loss_varies(const Rule& rule, const Trajectory& run, std::size_t step) {
  const auto window = static_cast<std::size_t>(rule.window);
  if (step + 1 < window) return false;
  std::vector<double> losses;
  for (std::size_t i = step + 1 - window; i <= step; ++i) losses.push_back(run.steps[i].loss);
  return deviation_of(losses) > rule.limit;
}

bool window_varies(const Rule& rule, const Trajectory& run, std::size_t last) {
  for (std::size_t p = 0; p < run.parameters.size(); ++p) {
    std::vector<double> norms;
    for (std::size_t i = last + 1 - static_cast<std::size_t>(rule.window); i <= last; ++i)
      norms.push_back(run.weight_norms[i][p]);
    if (mean_of(norms) > 0 && deviation_of(norms) / mean_of(norms) > rule.limit) return true;
  }
  return false;
}

bool norms_vary(const Rule& rule, const Trajectory& run, std::size_t step) {
  constexpr std::size_t in_a_row = 5;  // the article's
  const auto window = static_cast<std::size_t>(rule.window);
  if (step + 1 < in_a_row * window) return false;
  for (std::size_t k = 0; k < in_a_row; ++k)
    if (!window_varies(rule, run, step - k * window)) return false;
  return true;
}

}  // namespace

std::vector<double> log_norms(const Trajectory& run, std::size_t step) {
  constexpr double least = 1e-8;  // the article's
  std::vector<double> all;
  for (const double norm : run.gradient_norms[step])
    all.push_back(std::log10(std::max(norm, least)));
  return all;
}

std::vector<bool> alarms(const Rule& rule, const Trajectory& run, const Trajectory& reference) {
  std::vector<bool> fires;
  for (std::size_t step = 0; step < run.gradient_norms.size(); ++step) {
    const bool is_last = step + 1 == run.gradient_norms.size();
    if (rule.name == "norm_change")
      fires.push_back(norm_changes(rule, run, step));
    else if (rule.name == "weight_drift")
      fires.push_back(weights_drift(rule, run, step));
    else if (rule.name == "close")
      fires.push_back(is_last && is_apart(rule, run, reference));
    else if (rule.name == "cosine")
      fires.push_back(step < reference.gradient_norms.size() &&
                      cosine_of(log_norms(run, step), log_norms(reference, step)) < rule.limit);
    else if (rule.name == "loss_deviation")
      fires.push_back(loss_varies(rule, run, step));
    else if (rule.name == "variation")
      fires.push_back(norms_vary(rule, run, step));
    else
      throw InputError("", "rule '" + rule.name + "'",
                       "norm_change, weight_drift, close, cosine, loss_deviation or variation");
  }
  return fires;
}

double first_of(const std::vector<bool>& fires, std::int64_t from) {
  for (std::size_t i = static_cast<std::size_t>(from); i < fires.size(); ++i)
    if (fires[i]) return static_cast<double>(i);
  return std::numeric_limits<double>::infinity();
}

}  // namespace opbound::claims
