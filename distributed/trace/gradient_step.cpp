#include "distributed/trace/gradient_step.hpp"

#include <cmath>
#include <utility>

namespace opbound::trace {
namespace {

void add(std::vector<Tensor>& to, const std::vector<Tensor>& from) {
  for (std::size_t p = 0; p < to.size(); ++p)
    for (std::int64_t i = 0; i < to[p].count(); ++i) to[p].set(i, to[p].at(i) + from[p].at(i));
}

void divide(std::vector<Tensor>& by, double n) {
  for (Tensor& t : by)
    for (std::int64_t i = 0; i < t.count(); ++i) t.set(i, t.at(i) / n);
}

}  // namespace

void StepGradientSum::take(const Attribution& a, const GradientVectors& v) {
  if (!a.replay || !a.replay->gradient) return;
  if (taken_++ == 0) {
    sum_ = v;
    step_ = a.step;
    return;
  }
  add(sum_.exact, v.exact);
  add(sum_.low, v.low);
  add(sum_.predicted, v.predicted);
  for (std::size_t p = 0; p < sum_.class_norms.size(); ++p) {
    sum_.class_norms[p] += v.class_norms[p];
    sum_.class_squares[p] += v.class_squares[p];
  }
}

std::optional<StepGradient> StepGradientSum::finish(const train::Layout& layout,
                                                    const std::vector<Tensor>& mean,
                                                    std::int64_t micro_batches) {
  if (std::exchange(taken_, 0) != micro_batches) return std::nullopt;
  const auto n = static_cast<double>(micro_batches);
  for (std::vector<Tensor>* vectors : {&sum_.exact, &sum_.low, &sum_.predicted})
    divide(*vectors, n);
  StepGradient result{step_, micro_batches, {}, {}};
  for (std::size_t p = 0; p < mean.size(); ++p) {
    double squares = 0, exact = 0;
    for (std::int64_t i = 0; i < mean[p].count(); ++i) {
      const double error = mean[p].at(i) - sum_.low[p].at(i);
      if (!std::isfinite(error)) return std::nullopt;
      sum_.predicted[p].set(i, sum_.predicted[p].at(i) + error);
      squares += error * error;
      exact += sum_.exact[p].at(i) * sum_.exact[p].at(i);
    }
    result.of_sum.push_back(squares == 0 ? 0 : std::sqrt(squares / exact));
    sum_.class_norms[p] = sum_.class_norms[p] / n + std::sqrt(squares);
    sum_.class_squares[p] = sum_.class_squares[p] / (n * n) + squares;
  }
  sum_.low = mean;
  result.deviation = deviation_of(layout, sum_);
  return result;
}

}  // namespace opbound::trace
