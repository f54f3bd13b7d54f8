// What alarms see of a healthy run, and of one with a planted fault.
#include <algorithm>
#include <cmath>
#include <limits>

#include "distributed/claims/alarm.hpp"
#include "distributed/claims/experiment.hpp"
#include "distributed/claims/training_lab.hpp"
#include "reports/error.hpp"

namespace opbound::claims {
namespace {

double share(double count, double all) { return all == 0 ? 0 : count / all; }

/// How often one rule fires in a healthy run, and when in a faulty one.
Measured alarm(const Given& given, Laboratory& laboratory) {
  const std::int64_t steps = given.whole("steps"), from = given.whole("from");
  const Rule rule{given.text("rule"), given.number("limit"), given.whole("window")};
  const Trajectory& reference = trajectory(laboratory, given.text("reference"), steps);
  const Trajectory& healthy = trajectory(laboratory, given.text("run"), steps);
  const std::vector<bool> in_healthy = alarms(rule, healthy, reference);
  Measured m;
  const auto fired = static_cast<double>(std::count(in_healthy.begin(), in_healthy.end(), true));
  m.add("false_alarms", share(fired, static_cast<double>(in_healthy.size())),
        "share of a healthy run's steps at which the rule fires");
  m.add("first_false_alarm", first_of(in_healthy, 0), "the first of them, from 0; inf: none",
        "step");
  if (given.text("fault").empty()) return m;
  const Trajectory& faulty = trajectory(
      laboratory,
      given.text("run") + " fault=" + given.text("fault") + " from=" + std::to_string(from), steps);
  std::vector<bool> in_faulty = alarms(rule, faulty, reference);
  for (std::size_t i = 0; i < std::min(in_faulty.size(), in_healthy.size()); ++i)
    if (in_healthy[i]) in_faulty[i] = false;  // it says nothing of the fault
  m.add("delay", first_of(in_faulty, from) - static_cast<double>(from),
        "steps from the planted fault to the first alarm that the healthy run does not give; inf: "
        "none",
        "steps");
  double loss = std::numeric_limits<double>::infinity();
  for (std::size_t i = static_cast<std::size_t>(from);
       i < std::min(faulty.steps.size(), healthy.steps.size()) && std::isinf(loss); ++i) {
    const double apart = std::abs(faulty.steps[i].loss - healthy.steps[i].loss);
    if (apart > given.number("loss_share") * healthy.steps[i].loss)
      loss = static_cast<double>(i) - static_cast<double>(from);
  }
  m.add("loss_delay", loss, "steps until the loss is off by the share that was asked for", "steps");
  return m;
}

/// The article's four figures of a run.
Measured health(const Given& given, Laboratory& laboratory) {
  const std::int64_t steps = given.whole("steps");
  const Trajectory& reference = trajectory(laboratory, given.text("reference"), steps);
  const Trajectory& run = trajectory(laboratory, given.text("run"), steps);
  const std::size_t last = run.gradient_norms.size() - 1;
  std::vector<double> losses;
  for (std::size_t i = last + 1 - std::min<std::size_t>(20, last + 1); i <= last; ++i)
    losses.push_back(run.steps[i].loss);
  double variation = 0;
  for (std::size_t p = 0; p < run.parameters.size(); ++p) {
    std::vector<double> norms;
    for (const auto& step : run.weight_norms) norms.push_back(step[p]);
    if (mean_of(norms) > 0) variation = std::max(variation, deviation_of(norms) / mean_of(norms));
  }
  Measured m;
  m.add("cosine", cosine_of(log_norms(run, last), log_norms(reference, last)),
        "cosine of the vectors of log10 gradient norms at the last step");
  m.add("first_cosine", cosine_of(log_norms(run, 0), log_norms(reference, 0)),
        "the same at the first step, whose weights are the same");
  m.add("largest_variation", variation,
        "largest coefficient of variation of a parameter's norm over the steps");
  m.add("loss_deviation", deviation_of(losses), "standard deviation of the last 20 losses", "nats");
  return m;
}

/// Share of a matrix's largest singular value in its sum of squares, by the power method: never
/// above the true share but for rounding.
double largest_share(const Tensor& g) {
  const std::int64_t rows = g.shape()[0], columns = g.shape()[1];
  const std::vector<double> a = g.values();
  std::vector<double> v(static_cast<std::size_t>(columns), 1.0);
  double largest = 0;
  for (int i = 0; i < 50; ++i) {
    std::vector<double> next(v.size(), 0.0);
    const double length = norm_of(v);
    for (std::int64_t r = 0; r < rows; ++r) {
      const double* row = a.data() + r * columns;
      double dot = 0;
      for (std::size_t c = 0; c < v.size(); ++c) dot += row[c] * v[c] / length;
      for (std::size_t c = 0; c < v.size(); ++c) next[c] += row[c] * dot;
    }
    largest = norm_of(next);
    v = std::move(next);
  }
  return largest / (norm_of(a) * norm_of(a));
}

/// What principal components of one flattened gradient can say, and the spectrum of its matrix.
Measured spectrum(const Given& given, Laboratory& laboratory) {
  const Trajectory& run = trajectory(laboratory, "fp32", 1);
  const std::size_t p = run.parameter_named(given.text("parameter"));
  std::vector<Tensor> gradient;
  const Variation v = variation_of("fp32", 1);
  train_steps(laboratory, v, {},
              [&](train::Trainer&, const train::StepTensors& t) { gradient = t.gradient; });
  const std::vector<double> sample = gradient[p].values();
  std::vector<double> centred(sample);  // the mean over one sample is that sample
  for (std::size_t i = 0; i < centred.size(); ++i) centred[i] -= sample[i];
  const double variance = norm_of(centred);
  const auto& shape = gradient[p].shape();
  Measured m;
  m.add("components", variance > 0 ? 1 : 0,
        "principal components with any variance, of one gradient taken as one sample");
  m.add("matrix_components", static_cast<double>(std::min(shape[0], shape[1])),
        "singular values that the gradient's matrix has to show");
  m.add("largest_share", largest_share(gradient[p]),
        "share of the largest of them in the matrix's sum of squares");
  return m;
}

/// The fingerprint that the article describes, as literally as can be, on a healthy pair.
Measured literal_fingerprint(const Given& given, Laboratory& laboratory) {
  const std::int64_t steps = given.whole("steps");
  const Trajectory& a = trajectory(laboratory, given.text("a"), steps);
  const Trajectory& b = trajectory(laboratory, given.text("b"), steps);
  double below = 0, least = 1;
  const std::size_t all = std::min(a.gradient_norms.size(), b.gradient_norms.size());
  for (std::size_t i = 0; i < all; ++i) {
    const double c = cosine_of(log_norms(a, i), log_norms(b, i));
    least = std::min(least, c);
    below += c < given.number("limit") ? 1 : 0;
  }
  Measured m;
  m.add("false_alarms", below / static_cast<double>(all),
        "share of steps at which the cosine of log norms is below the limit");
  m.add("least_cosine", least, "the lowest cosine");
  return m;
}

}  // namespace

Experiments monitor_experiments() {
  const std::string reproducible = "fp32-reproducible", none;
  const std::int64_t steps = 60;
  return {
      {"alarm",
       "a rule that fires on a run's norms, losses or weights: in a healthy run, in a faulty one",
       {{"rule", std::string("norm_change")},
        {"limit", 0.05},
        {"window", std::int64_t{20}},
        {"run", reproducible},
        {"reference", std::string("fp32")},
        {"fault", none},
        {"from", std::int64_t{20}},
        {"loss_share", 0.01},
        {"steps", steps}},
       alarm},
      {"health",
       "fingerprint cosine, variation of norms and deviation of the loss of a run",
       {{"run", std::string("bf16")}, {"reference", reproducible}, {"steps", steps}},
       health},
      {"spectrum",
       "principal components of one gradient as one sample, and singular values of its matrix",
       {{"parameter", std::string("h.0.attn.c_attn.weight")}},
       spectrum},
      {"literal_fingerprint",
       "cosine of two healthy runs' log norms, step by step",
       {{"a", reproducible}, {"b", std::string("bf16")}, {"limit", 0.9999}, {"steps", steps}},
       literal_fingerprint}};
}

}  // namespace opbound::claims
