// Training runs side by side.
#include <algorithm>
#include <cmath>

#include "distributed/claims/experiment.hpp"
#include "distributed/claims/op_case.hpp"
#include "distributed/claims/training_lab.hpp"
#include "distributed/claims/training_lists.hpp"
#include "distributed/train/language_model.hpp"
#include "distributed/train/prompts.hpp"
#include "reports/error.hpp"
#include "suites/folder.hpp"

namespace opbound::claims {
namespace {

std::map<std::string, Tensor> by_name(const Trajectory& t) {
  std::map<std::string, Tensor> tensors;
  for (std::size_t p = 0; p < t.parameters.size(); ++p)
    tensors.emplace(t.parameters[p].name, t.weights[p]);
  return tensors;
}

std::vector<train::Prompt> prompts_of(std::int64_t most) {
  const std::filesystem::path name = std::filesystem::path("prompts") / "corner_cases.toml";
  const std::filesystem::path suites = suites_folder(name);
  if (suites.empty()) throw Unavailable("suites/prompts/corner_cases.toml is not here");
  std::vector<train::Prompt> all = train::read_prompts(suites / name);
  if (std::cmp_less(most, all.size())) all.resize(static_cast<std::size_t>(most));
  return all;
}

train::EvaluatedModel model_of(Laboratory& laboratory, const std::string& variation,
                               std::int64_t steps) {
  return train::language_model(variation, variation_of(variation, steps).spec,
                               by_name(trajectory(laboratory, variation, steps)), laboratory.device,
                               16);
}

/// KL of the next token after every token of every prompt; lengths where `tokens` is above 0.
void add_kl(Laboratory& laboratory, const Given& given, Measured& m) {
  const std::int64_t steps = given.whole("steps");
  train::EvaluationOptions options;
  options.most_tokens = given.whole("tokens");
  const train::Evaluation e = train::evaluate(model_of(laboratory, given.text("a"), steps),
                                              model_of(laboratory, given.text("b"), steps),
                                              prompts_of(given.whole("prompts")), options);
  const train::EvaluationTotals totals = train::totals_of(e.prompts);
  m.add("kl_mean", totals.all.kl_mean_nats(),
        "KL of b's next-token distributions against a's, mean over all places of all prompts",
        "nats");
  m.add("kl_max", totals.all.kl_max_nats, "and its largest", "nats");
  m.add("top1", totals.top1_share(), "share of places whose most likely token is the same");
  m.add("length_deviation", totals.length_deviation_mean,
        "mean difference of the lengths that are generated, within the most that was allowed",
        "tokens");
}

void add_runs(const Trajectory& a, const Trajectory& b, Measured& m) {
  const std::size_t steps = std::min(a.steps.size(), b.steps.size());
  double differing = 0, skipped_a = 0, skipped_b = 0;
  for (std::size_t i = 0; i < steps; ++i) {
    differing += a.steps[i].loss == b.steps[i].loss ? 0 : 1;
    skipped_a += a.steps[i].is_skipped ? 1 : 0;
    skipped_b += b.steps[i].is_skipped ? 1 : 0;
  }
  m.add("differing_steps", differing, "steps whose loss differs in a bit", "steps");
  m.add("differing_weights", a.hash == b.hash ? 0 : 1, "1: the weights at the end differ");
  const std::vector<double> x = flat(a.weights), y = flat(b.weights);
  double apart = 0;
  for (std::size_t i = 0; i < x.size(); ++i) apart += (x[i] - y[i]) * (x[i] - y[i]);
  m.add("weights_apart", std::sqrt(apart) / norm_of(x), "|w_a - w_b| / |w_a| at the end");
  m.add("last_loss_change",
        b.steps.empty() || a.steps.empty()
            ? std::nan("")
            : (b.steps.back().loss - a.steps.back().loss) / a.steps.back().loss,
        "how much higher b's last loss is, relative to a's");
  m.add("skipped_a", skipped_a, "steps of a whose gradient was not finite", "steps");
  m.add("skipped_b", skipped_b, "and of b", "steps");
  m.add("ended", b.failure.empty() ? 0 : 1, "1: b ended at a gradient that was not finite");
}

Measured compare_runs(const Given& given, Laboratory& laboratory) {
  const std::int64_t steps = given.whole("steps");
  Measured m;
  add_runs(trajectory(laboratory, given.text("a"), steps),
           trajectory(laboratory, given.text("b"), steps), m);
  if (given.whole("prompts") > 0) add_kl(laboratory, given, m);
  return m;
}

/// Memory is known before the first step.
Measured memory(const Given& given, Laboratory& laboratory) {
  const Trajectory& a = trajectory(laboratory, given.text("a"), 1);
  const Trajectory& b = trajectory(laboratory, given.text("b"), 1);
  const auto more = [](std::int64_t x, std::int64_t y) {
    return 100 * (static_cast<double>(y) / static_cast<double>(x) - 1);
  };
  Measured m;
  m.add("more", more(a.allocated_bytes, b.allocated_bytes), "how much more memory b takes in all",
        "%");
  m.add("more_activations", more(a.arena_bytes, b.arena_bytes), "and for activations alone", "%");
  return m;
}

/// How far one parameter's update over some steps is from that of the fp64 run.
Measured update_deviation(const Given& given, Laboratory& laboratory) {
  const std::int64_t steps = given.whole("steps");
  const Trajectory& shadow = trajectory(laboratory, "fp64", steps);
  const Trajectory& run = trajectory(laboratory, given.text("run"), steps);
  const std::size_t p = run.parameter_named(given.text("parameter"));
  std::vector<double> update, error;
  for (std::int64_t i = 0; i < run.weights[p].count(); ++i) {
    update.push_back(run.weights[p].at(i) - run.first[p].at(i));
    error.push_back(update.back() - (shadow.weights[p].at(i) - shadow.first[p].at(i)));
  }
  Measured m;
  m.add("update", deviation_of(update), "standard deviation of the parameter's update");
  m.add("error", deviation_of(error),
        "standard deviation of its difference from the update of the fp64 run");
  return m;
}

/// Standard deviation over steps of a parameter's gradient norm, in two runs.
Measured norm_deviation(const Given& given, Laboratory& laboratory) {
  const std::int64_t steps = given.whole("steps");
  const Trajectory& a = trajectory(laboratory, given.text("a"), steps);
  const Trajectory& b = trajectory(laboratory, given.text("b"), steps);
  const std::size_t p = a.parameter_named(given.text("parameter"));
  const auto norms = [&](const Trajectory& t) {
    std::vector<double> all;
    for (const auto& step : t.gradient_norms) all.push_back(step[p]);
    return all;
  };
  const std::vector<double> x = norms(a), y = norms(b);
  double differing = 0;
  for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i) differing += x[i] == y[i] ? 0 : 1;
  Measured m;
  m.add("differing_steps", differing, "steps at which the norms differ in a bit", "steps");
  m.add("more", 100 * (deviation_of(y) / deviation_of(x) - 1),
        "how much larger the norm's standard deviation over the steps is in b", "%");
  m.add("more_memory",
        100 * (static_cast<double>(b.allocated_bytes) / static_cast<double>(a.allocated_bytes) - 1),
        "how much more memory b takes", "%");
  return m;
}

/// The share of updates too small for a format: w + d rounds to w.
Measured lost_updates(const Given& given, Laboratory& laboratory) {
  const Format format = format_of_name(given.text("format"));
  const std::int64_t early = given.whole("warmup");
  std::vector<double> before;
  double lost_early = 0, lost_late = 0;
  std::int64_t step = 0;
  const std::int64_t steps = given.whole("steps");
  train_steps(
      laboratory, variation_of("fp32-reproducible warmup=" + std::to_string(early), steps),
      [&](train::Trainer& t) { before = flat(t.weights()); },
      [&](train::Trainer& t, const train::StepTensors&) {
        const std::vector<double> after = flat(t.weights());
        double lost = 0, moved = 0;
        for (std::size_t i = 0; i < after.size(); ++i) {
          if (after[i] == before[i]) continue;
          const double w = round_to(format, before[i]);
          moved += 1;
          lost += round_to(format, w + (after[i] - before[i])) == w ? 1 : 0;
        }
        (step < early ? lost_early : lost_late) += lost / moved;
        before = after;
        ++step;
      });
  Measured m;
  m.add("lost_in_warmup", lost_early / static_cast<double>(std::max<std::int64_t>(early, 1)),
        "share of updates that change nothing in the format, mean over the warm-up's steps");
  m.add("lost_after", lost_late / static_cast<double>(steps - early), "and over the steps after");
  return m;
}

}  // namespace

Experiments run_experiments() {
  const std::string fp32 = "fp32", bf16 = "bf16";
  const std::int64_t few = 40;
  return {{"compare_runs",
           "two training runs from the same seed; their next-token distributions where asked",
           {{"a", fp32},
            {"b", bf16},
            {"steps", few},
            {"prompts", std::int64_t{0}},
            {"tokens", std::int64_t{1}}},
           compare_runs},
          {"memory",
           "memory that two variations of a training run take",
           {{"a", bf16}, {"b", std::string("bf16-mlp32")}},
           memory},
          {"update_deviation",
           "a parameter's update against that of the run in fp64",
           {{"run", fp32}, {"steps", few}, {"parameter", std::string("h.1.mlp.c_fc.weight")}},
           update_deviation},
          {"norm_deviation",
           "how a parameter's gradient norm varies over two runs",
           {{"a", bf16},
            {"b", std::string("bf16 checkpointing=all")},
            {"steps", few},
            {"parameter", std::string("h.1.mlp.c_fc.weight")}},
           norm_deviation},
          {"lost_updates",
           "updates of a run that would change nothing in a narrow format",
           {{"format", bf16}, {"warmup", std::int64_t{20}}, {"steps", std::int64_t{60}}},
           lost_updates}};
}

}  // namespace opbound::claims
