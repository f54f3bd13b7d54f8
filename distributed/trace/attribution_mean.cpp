#include "distributed/trace/attribution_mean.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>

namespace opbound::trace {
namespace {

using Those = std::vector<const Attribution*>;

double mean_over(const Those& those, const std::function<double(const Attribution&)>& value) {
  double sum = 0;
  for (const Attribution* a : those) sum += value(*a);
  return sum / static_cast<double>(those.size());
}

double root_over(const Those& those, const std::function<double(const Attribution&)>& value) {
  return std::sqrt(mean_over(those, [&](const Attribution& a) { return value(a) * value(a); }));
}

void mean_classes(const Those& those, Attribution& mean) {
  double squares = 0;
  for (std::size_t c = 0; c < mean.classes.size(); ++c) {
    ClassContribution& to = mean.classes[c];
    to.loss = mean_over(those, [&](const Attribution& a) { return a.classes[c].loss; });
    to.loss_exact = mean_over(those, [&](const Attribution& a) { return a.classes[c].loss_exact; });
    // Micro-batches round independently, but for the weights, which they share.
    to.loss_expected =
        root_over(those, [&](const Attribution& a) { return a.classes[c].loss_expected; }) /
        (to.where.pass == Pass::weight ? 1 : std::sqrt(static_cast<double>(those.size())));
    squares += to.loss * to.loss;
    if (to.loss_replayed)
      to.loss_replayed =
          mean_over(those, [&](const Attribution& a) { return *a.classes[c].loss_replayed; });
    if (mean.nonfinite > 0) {
      to.gradient.reset();
      to.gradient_share.reset();
    }
    if (!to.gradient) continue;
    to.gradient = root_over(those, [&](const Attribution& a) { return *a.classes[c].gradient; });
    to.gradient_share =
        mean_over(those, [&](const Attribution& a) { return *a.classes[c].gradient_share; });
  }
  mean.root_of_squares = std::sqrt(squares);
}

void mean_gradient(const Those& those, GradientDeviation& g) {
  for (auto of : {&GradientDeviation::measured, &GradientDeviation::predicted,
                  &GradientDeviation::unattributed})
    g.*of = root_over(those, [&](const Attribution& a) { return (*a.replay->gradient).*of; });
  for (std::size_t p = 0; p < g.parameters.size(); ++p)
    for (auto of : {&ParameterDeviation::norm, &ParameterDeviation::measured,
                    &ParameterDeviation::predicted, &ParameterDeviation::unattributed,
                    &ParameterDeviation::root_of_squares, &ParameterDeviation::largest})
      g.parameters[p].*of = root_over(
          those, [&](const Attribution& a) { return a.replay->gradient->parameters[p].*of; });
}

}  // namespace

Attribution mean_of_step(const std::vector<Attribution>& parts, std::int64_t step) {
  Those those;
  for (const Attribution& a : parts)
    if (a.step == step) those.push_back(&a);
  detail::require(!those.empty(), "a step that was attributed");
  Attribution mean = *those.front();
  for (const Attribution* a : std::span(those).subspan(1)) {
    mean.nonfinite += a->nonfinite;
    mean.changed += a->changed;
    if (mean.first_changed.empty()) mean.first_changed = a->first_changed;
  }
  for (auto of : {&Attribution::loss, &Attribution::loss_exact, &Attribution::predicted,
                  &Attribution::predicted_exact})
    mean.*of = mean_over(those, [&](const Attribution& a) { return a.*of; });
  mean_classes(those, mean);
  if (!mean.replay) return mean;
  for (const Attribution* a : those) {
    mean.replay->largest_gap = std::max(mean.replay->largest_gap, a->replay->largest_gap);
    mean.replay->rank_correlation =
        std::min(mean.replay->rank_correlation, a->replay->rank_correlation);
  }
  mean.replay->loss = mean_over(those, [](const Attribution& a) { return a.replay->loss; });
  if (mean.nonfinite > 0) mean.replay->gradient.reset();
  if (mean.replay->gradient) mean_gradient(those, *mean.replay->gradient);
  return mean;
}

}  // namespace opbound::trace
