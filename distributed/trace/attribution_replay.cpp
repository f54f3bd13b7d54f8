#include "distributed/trace/attribution_replay.hpp"

#include <algorithm>
#include <cmath>

namespace opbound::trace {
namespace {

/// Sums over one parameter's gradient.
struct Sums {
  double exact = 0, measured = 0, predicted = 0, unattributed = 0;  ///< squares of norms
  double class_squares = 0, class_norms = 0;                        ///< of the classes' changes
};

class Gradients {
 public:
  Gradients(const train::RunView& run, const Trajectories& t) : run_(run), t_(t) {
    for (const train::Ref& g : run.refs.gradients) predicted_.push_back(t.exact.zeros(g.value));
    sums_.resize(predicted_.size());
    for (std::size_t p = 0; p < sums_.size(); ++p) {
      const Tensor &low = at(t.low, p), &exact = at(t.values, p);
      for (std::int64_t i = 0; i < low.count(); ++i) {
        const double difference = low.at(i) - exact.at(i);
        nonfinite_ += std::isfinite(low.at(i)) ? 0 : 1;
        sums_[p].exact += exact.at(i) * exact.at(i);
        sums_[p].measured += difference * difference;
      }
      exact_ += sums_[p].exact;
      measured_ += sums_[p].measured;
    }
  }

  std::int64_t nonfinite() const { return nonfinite_; }

  /// What one class's errors did: its norm over that of the exact gradient, and its share.
  void take(Replay& replay, ClassContribution& c) {
    double squares = 0, along = 0;
    for (std::size_t p = 0; p < sums_.size(); ++p) {
      const int v = run_.refs.gradients[p].value;
      if (!replay.is_changed(v)) continue;
      const Tensor &changed = replay.value(v), &exact = at(t_.values, p), &low = at(t_.low, p);
      double of_parameter = 0;
      for (std::int64_t i = 0; i < changed.count(); ++i) {
        const double change = changed.at(i) - exact.at(i);
        of_parameter += change * change;
        along += change * (low.at(i) - exact.at(i));
        predicted_[p].set(i, predicted_[p].at(i) + change);
      }
      sums_[p].class_squares += of_parameter;
      sums_[p].class_norms += std::sqrt(of_parameter);
      squares += of_parameter;
    }
    c.gradient = ratio(std::sqrt(squares), std::sqrt(exact_));
    c.gradient_share = ratio(along, measured_);
  }

  GradientDeviation deviation() {
    GradientDeviation all;
    double predicted = 0, unattributed = 0;
    for (std::size_t p = 0; p < sums_.size(); ++p) {
      Sums& s = sums_[p];
      const Tensor &low = at(t_.low, p), &exact = at(t_.values, p);
      for (std::int64_t i = 0; i < low.count(); ++i) {
        const double x = predicted_[p].at(i), rest = low.at(i) - exact.at(i) - x;
        s.predicted += x * x;
        s.unattributed += rest * rest;
      }
      predicted += s.predicted;
      unattributed += s.unattributed;
      const double norm = std::sqrt(s.exact);
      const train::ParameterSpec& parameter = run_.layout.parameters()[p];
      all.parameters.push_back(
          {parameter.name, parameter.layer, norm / loss_scale(), ratio(std::sqrt(s.measured), norm),
           ratio(std::sqrt(s.predicted), norm), ratio(std::sqrt(s.unattributed), norm),
           ratio(std::sqrt(s.class_squares), norm), ratio(s.class_norms, norm)});
    }
    all.measured = ratio(std::sqrt(measured_), std::sqrt(exact_));
    all.predicted = ratio(std::sqrt(predicted), std::sqrt(exact_));
    all.unattributed = ratio(std::sqrt(unattributed), std::sqrt(exact_));
    return all;
  }

 private:
  static double ratio(double a, double b) { return a == 0 ? 0 : a / b; }

  const Tensor& at(const Values& values, std::size_t p) const {
    return values[static_cast<std::size_t>(run_.refs.gradients[p].value)];
  }

  double loss_scale() const {
    for (std::size_t v = 0; v < t_.values.size(); ++v)
      if (run_.tape.values()[v].name == "loss scale") return t_.values[v].at(0);
    return 1;
  }

  const train::RunView& run_;
  const Trajectories& t_;
  std::vector<Tensor> predicted_;  ///< the sum of the classes' changes
  std::vector<Sums> sums_;
  double exact_ = 0, measured_ = 0;
  std::int64_t nonfinite_ = 0;
};

}  // namespace

void replay_classes(const train::RunView& run, const Trajectories& t, const ClassPlaces& places,
                    bool with_replay, Attribution& a) {
  Gradients gradients(run, t);
  a.nonfinite = gradients.nonfinite();
  if (!with_replay) return;
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
  if (with_gradients) result.gradient = gradients.deviation();
  a.replay = std::move(result);
}

}  // namespace opbound::trace
