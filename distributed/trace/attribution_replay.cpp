#include "distributed/trace/attribution_replay.hpp"

#include <algorithm>
#include <cmath>

namespace opbound::trace {
namespace {

double ratio(double a, double b) { return a == 0 ? 0 : a / b; }

double square_of_difference(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (std::int64_t i = 0; i < a.count(); ++i) {
    const double difference = a.at(i) - b.at(i);
    sum += difference * difference;
  }
  return sum;
}

double square_of(const Tensor& a) {
  double sum = 0;
  for (std::int64_t i = 0; i < a.count(); ++i) sum += a.at(i) * a.at(i);
  return sum;
}

std::int64_t nonfinite_of(const Tensor& a) {
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < a.count(); ++i) count += std::isfinite(a.at(i)) ? 0 : 1;
  return count;
}

/// What the classes' errors do to the gradients, class after class.
class Gradients {
 public:
  Gradients(const train::RunView& run, const Trajectories& t, GradientVectors& v)
      : run_(run), v_(v) {
    v_ = {};
    for (const train::Ref& g : run.refs.gradients) {
      const auto place = static_cast<std::size_t>(g.value);
      v_.exact.push_back(t.values[place]);
      v_.low.push_back(t.low[place]);
      v_.predicted.push_back(t.exact.zeros(g.value));
      exact_ += square_of(v_.exact.back());
      measured_ += square_of_difference(v_.low.back(), v_.exact.back());
    }
    v_.class_norms.resize(v_.exact.size());
    v_.class_squares.resize(v_.exact.size());
    for (std::size_t place = 0; place < t.values.size(); ++place)
      if (run.tape.values()[place].name == "loss scale") v_.loss_scale = t.values[place].at(0);
  }

  /// What one class's errors did: its norm over that of the exact gradient, and its share.
  void take(Replay& replay, ClassContribution& c) {
    double squares = 0, along = 0;
    for (std::size_t p = 0; p < v_.exact.size(); ++p) {
      const int v = run_.refs.gradients[p].value;
      if (!replay.is_changed(v)) continue;
      const Tensor &changed = replay.value(v), &exact = v_.exact[p], &low = v_.low[p];
      double of_parameter = 0;
      for (std::int64_t i = 0; i < changed.count(); ++i) {
        const double change = changed.at(i) - exact.at(i);
        of_parameter += change * change;
        along += change * (low.at(i) - exact.at(i));
        v_.predicted[p].set(i, v_.predicted[p].at(i) + change);
      }
      v_.class_squares[p] += of_parameter;
      v_.class_norms[p] += std::sqrt(of_parameter);
      squares += of_parameter;
    }
    c.gradient = ratio(std::sqrt(squares), std::sqrt(exact_));
    c.gradient_share = ratio(along, measured_);
  }

 private:
  const train::RunView& run_;
  GradientVectors& v_;
  double exact_ = 0, measured_ = 0;
};

}  // namespace

GradientDeviation deviation_of(const train::Layout& layout, const GradientVectors& v) {
  GradientDeviation all;
  double exact = 0, measured = 0, predicted = 0, unattributed = 0;
  for (std::size_t p = 0; p < v.exact.size(); ++p) {
    double rest = 0;
    for (std::int64_t i = 0; i < v.exact[p].count(); ++i) {
      const double r = v.low[p].at(i) - v.exact[p].at(i) - v.predicted[p].at(i);
      rest += r * r;
    }
    const double square = square_of(v.exact[p]), norm = std::sqrt(square);
    const double of_low = square_of_difference(v.low[p], v.exact[p]);
    const double of_predicted = square_of(v.predicted[p]);
    exact += square;
    measured += of_low;
    predicted += of_predicted;
    unattributed += rest;
    const train::ParameterSpec& parameter = layout.parameters()[p];
    all.parameters.push_back(
        {parameter.name, parameter.layer, norm / v.loss_scale, ratio(std::sqrt(of_low), norm),
         ratio(std::sqrt(of_predicted), norm), ratio(std::sqrt(rest), norm),
         ratio(std::sqrt(v.class_squares[p]), norm), ratio(v.class_norms[p], norm)});
  }
  const double norm = std::sqrt(exact);
  all.measured = ratio(std::sqrt(measured), norm);
  all.predicted = ratio(std::sqrt(predicted), norm);
  all.unattributed = ratio(std::sqrt(unattributed), norm);
  return all;
}

void replay_classes(const train::RunView& run, const Trajectories& t, const ClassPlaces& places,
                    bool with_replay, Attribution& a, GradientVectors& vectors) {
  for (const train::Ref& g : run.refs.gradients)
    a.nonfinite += nonfinite_of(t.low[static_cast<std::size_t>(g.value)]);
  if (!with_replay) return;
  Gradients gradients(run, t, vectors);
  const bool with_gradients = a.nonfinite == 0;
  ReplayResult result;
  std::vector<double> contributions, replays;
  for (std::size_t c = 0; c < a.classes.size(); ++c) {
    ClassContribution& one = a.classes[c];
    const bool is_of_loss = one.where.pass != Pass::backward;
    if (!is_of_loss && !with_gradients) continue;
    Replay replay(t);
    for (std::size_t p = 0; p < places.of_parameter.size(); ++p)
      if (places.of_parameter[p] == c) replay.change_input(run.refs.weights[p].value);
    std::vector<bool> with_error(places.of_call.size());
    for (std::size_t i = 0; i < with_error.size(); ++i) with_error[i] = places.of_call[i] == c;
    replay.run(with_error);
    if (is_of_loss) {
      one.loss_replayed = replay.value(t.exact.loss()).at(0) - a.loss_exact;
      result.loss += *one.loss_replayed;
      contributions.push_back(one.loss);
      replays.push_back(*one.loss_replayed);
      const double gap = std::abs(one.loss - *one.loss_replayed);
      if (gap > 0) result.largest_gap = std::max(result.largest_gap, gap / a.root_of_squares);
    }
    if (with_gradients) gradients.take(replay, one);
  }
  result.rank_correlation = rank_correlation(contributions, replays);
  if (with_gradients) result.gradient = deviation_of(run.layout, vectors);
  a.replay = std::move(result);
}

}  // namespace opbound::trace
