// Gradients of single steps, and what becomes of them.
#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <cmath>

#include "distributed/claims/experiment.hpp"
#include "distributed/claims/op_case.hpp"
#include "distributed/claims/training_lab.hpp"
#include "distributed/claims/training_lists.hpp"
#include "reports/error.hpp"

namespace opbound::claims {
namespace {

/// The gradient of each of `count` sequences from the initial weights, flat.
std::vector<std::vector<double>> sequence_gradients(Laboratory& laboratory,
                                                    const std::string& policy, std::int64_t count) {
  Variation v = variation_of(policy, 1);
  v.spec.micro_batches = count;
  v.spec.sequences = 1;
  train::TrainOptions options;
  options.device = laboratory.device;
  train::Trainer trainer(v.spec, options);
  trainer.set_initial_weights();
  std::vector<std::vector<double>> all;
  for (std::int64_t g = 0; g < count; ++g) {
    std::vector<Tensor> gradient;
    trainer.gradients(g, gradient);
    all.push_back(flat(gradient));
  }
  return all;
}

/// Mean over [first, first + count), every addition and the quotient in fp32.
std::vector<double> mean_of_part(const std::vector<std::vector<double>>& all, std::size_t first,
                                 std::size_t count) {
  std::vector<float> sum(all.front().size(), 0.0F);
  for (std::size_t k = first; k < first + count; ++k)
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<float>(all[k][i]);
  std::vector<double> mean(sum.size());
  for (std::size_t i = 0; i < sum.size(); ++i)
    mean[i] = sum[i] / static_cast<float>(static_cast<double>(count));
  return mean;
}

double apart(const std::vector<double>& a, const std::vector<double>& b) {
  double squares = 0;
  for (std::size_t i = 0; i < a.size(); ++i) squares += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(squares) / norm_of(b);
}

/// The mean of micro-batches' means, against the mean of all sequences.
Measured accumulation(const Given& given, Laboratory& laboratory) {
  std::vector<std::size_t> sizes;
  std::size_t count = 0;
  for (const std::string& word : given.words("micro_batches")) {
    sizes.push_back(static_cast<std::size_t>(printed_number(word).value));
    count += sizes.back();
  }
  if (count == 0) throw InputError("", "micro_batches", "their sizes, as in '4 4'");
  const auto all = sequence_gradients(laboratory, "fp32", static_cast<std::int64_t>(count));
  std::vector<double> exact(all.front().size(), 0.0);
  for (const auto& g : all)
    for (std::size_t i = 0; i < g.size(); ++i) exact[i] += g[i] / static_cast<double>(count);
  std::vector<std::vector<double>> means;
  std::size_t first = 0;
  for (const std::size_t size : sizes) {
    means.push_back(mean_of_part(all, first, size));
    first += size;
  }
  const std::vector<double> of_means = mean_of_part(means, 0, means.size());
  std::vector<double> undivided = of_means;
  for (double& x : undivided) x *= static_cast<double>(means.size());
  Measured m;
  m.add("noise", apart(of_means, exact),
        "|mean of the micro-batches' means - mean of all sequences|, relative");
  m.add("undivided", apart(undivided, exact),
        "the same where the sum of the means is not divided by their number");
  return m;
}

/// One weight is moved by one ulp before the first step; how the runs move apart.
Measured growth(const Given& given, Laboratory& laboratory) {
  const std::int64_t steps = given.whole("steps");
  const Variation v = variation_of(given.text("run"), steps);
  std::vector<std::vector<double>> base;
  train_steps(laboratory, v, {}, [&](train::Trainer& t, const train::StepTensors&) {
    base.push_back(flat(t.weights()));
  });
  std::vector<double> distance;
  train_steps(
      laboratory, v,
      [](train::Trainer& t) {
        std::vector<Tensor> weights = t.weights();
        const double w = weights[0].at(0);
        weights[0].set(0, w + ulp(fp32, w));
        t.set_weights(weights);
      },
      [&](train::Trainer& t, const train::StepTensors&) {
        const std::vector<double> now = flat(t.weights());
        const auto& was = base[distance.size()];
        double squares = 0;
        for (std::size_t i = 0; i < now.size(); ++i)
          squares += (now[i] - was[i]) * (now[i] - was[i]);
        distance.push_back(std::sqrt(squares));
      });
  const std::size_t last = distance.size() - 1, middle = last / 2;
  Measured m;
  m.add("first", distance.front(), "distance of the weights after the first step");
  m.add("factor", distance[last] / distance.front(), "how many times larger it is at the end");
  m.add("first_half", distance[middle] / distance.front(), "by how much it grew in the first half");
  m.add("second_half", distance[last] / distance[middle],
        "and in the second; growth that is exponential throughout has the same in both");
  return m;
}

/// Dividing the loss divides the gradient, and what is stored in 16 bits flushes.
Measured divided_loss(const Given& given, Laboratory& laboratory) {
  const Format format = format_of_name(given.text("format"));
  const double by = given.number("by");
  const std::vector<double> g = sequence_gradients(laboratory, "fp32", 1).front();
  std::vector<double> divided(g);
  double flushed = 0, nonzero = 0;
  for (std::size_t i = 0; i < g.size(); ++i) {
    divided[i] = round_to(format, g[i] / by);
    if (round_to(format, g[i]) == 0) continue;
    nonzero += 1;
    flushed += divided[i] == 0 ? 1 : 0;
  }
  Measured m;
  m.add("factor", norm_of(divided) / norm_of(g),
        "norm of the gradient of the divided loss, over the right one's");
  m.add("flushed", flushed / nonzero, "share of elements that become 0 in the format");
  m.add("divisor", round_to(format, by), "the divisor itself in the format");
  return m;
}

/// min(loss, limit): what the curve shows and what the gradient loses.
Measured clamped_loss(const Given& given, Laboratory& laboratory) {
  const std::int64_t steps = given.whole("steps");
  std::vector<double> loss;
  for (const train::StepResult& s : trajectory(laboratory, "fp32-reproducible", steps).steps)
    loss.push_back(s.loss);
  double limit = given.number("limit");
  if (limit == 0) {
    std::vector<double> sorted(loss);
    std::sort(sorted.begin(), sorted.end());
    limit = sorted[sorted.size() / 2];
  }
  std::vector<double> clamped;
  double without = 0;
  for (const double x : loss) {
    clamped.push_back(std::min(x, limit));
    without += x > limit ? 1 : 0;
  }
  Measured m;
  m.add("limit", limit, "where the loss is clamped", "nats");
  m.add("lowered", 100 * (1 - deviation_of(clamped) / deviation_of(loss)),
        "by how much the loss's standard deviation over the steps is lower", "%");
  m.add("without_gradient", 100 * without / static_cast<double>(loss.size()),
        "steps whose gradient the clamp makes 0", "%");
  return m;
}

/// The mean of rounding errors that have a sign against what chance makes of it.
Measured rounding_bias(const Given& given, Laboratory& laboratory) {
  const Format format = format_of_name(given.text("format"));
  const bool truncates = given.flag("truncated");
  double sum = 0, squares = 0, n = 0;
  for (const auto& g : sequence_gradients(laboratory, "fp32", given.whole("sequences")))
    for (const double x : g) {
      if (x == 0) continue;
      const double stored = truncates ? truncate_to(format, x) : round_to(format, x);
      const double error = (std::abs(stored) - std::abs(x)) / ulp(format, x);
      sum += error;
      squares += error * error;
      n += 1;
    }
  const double mean = sum / n, z = sum / std::sqrt(squares);
  Measured m;
  m.add("bias", mean, "mean error of a gradient's magnitude when it is stored", "ulp");
  m.add("p_value",
        2 * boost::math::cdf(boost::math::complement(boost::math::normal(), std::abs(z))),
        "p-value of that mean, if errors of both signs were alike");
  m.add("alpha", interval_alpha, "the false-alarm rate of the test");
  return m;
}

/// A NaN in one gradient: is the run stopped before it is in the weights?
Measured breaker(const Given& given, Laboratory& laboratory) {
  const std::int64_t steps = given.whole("steps"), from = given.whole("from");
  const std::string faulty = given.text("run") + " fault=nan from=" + std::to_string(from);
  const Trajectory& stopped = trajectory(laboratory, faulty, steps);
  std::vector<double> before;
  std::int64_t step = 0;
  train_steps(
      laboratory, variation_of(given.text("run"), steps),
      [&](train::Trainer& t) { before = flat(t.weights()); },
      [&](train::Trainer& t, const train::StepTensors&) {
        if (++step == from) before = flat(t.weights());
      });
  double changed = 0, nan = 0;
  const std::vector<double> after = flat(stopped.weights);
  for (std::size_t i = 0; i < after.size(); ++i) {
    changed += after[i] == before[i] ? 0 : 1;
    nan += std::isnan(after[i]) ? 1 : 0;
  }
  const bool named =
      stopped.failure.find("step " + std::to_string(from)) == 0 &&
      stopped.failure.find("h.1.mlp.c_fc.weight is NaN at element 17") != std::string::npos;
  Measured m;
  m.add("stopped", stopped.failure.empty() ? 0 : 1, "1: the run ended with an error");
  m.add("named", named ? 1 : 0, "1: its message names step, parameter and element");
  m.add("changed", changed, "weights that the step of the NaN changed");
  m.add("nan", nan, "weights that are NaN");
  return m;
}

}  // namespace

Experiments gradient_experiments() {
  const std::string fp32 = "fp32";
  return {{"accumulation",
           "the mean of micro-batches' mean gradients, against the mean of all sequences",
           {{"micro_batches", std::string("4 4")}},
           accumulation},
          {"growth",
           "two runs whose first weight differs by one ulp",
           {{"run", std::string("fp32-reproducible")}, {"steps", std::int64_t{300}}},
           growth},
          {"divided_loss",
           "the gradient of a loss that was divided",
           {{"by", 65536.0}, {"format", std::string("fp16")}},
           divided_loss},
          {"clamped_loss",
           "a loss curve that is clamped, at its median where the limit is 0",
           {{"limit", 1e4}, {"steps", std::int64_t{60}}},
           clamped_loss},
          {"rounding_bias",
           "the signed error of storing gradients in a format",
           {{"format", std::string("bf16")}, {"truncated", false}, {"sequences", std::int64_t{8}}},
           rounding_bias},
          {"breaker",
           "a run with a planted NaN in one gradient",
           {{"run", fp32}, {"steps", std::int64_t{8}}, {"from", std::int64_t{3}}},
           breaker}};
}

Experiments training_experiments() {
  Experiments all = run_experiments();
  for (Experiments (*more)() : {gradient_experiments, process_experiments, node_experiments,
                                audit_experiments, suspect_experiments, compiled_experiments})
    for (Experiment& e : more()) all.push_back(std::move(e));
  return all;
}

}  // namespace opbound::claims
