#include "distributed/trace/config_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "distributed/train/model.hpp"

namespace opbound::trace {
namespace {

using train::TrainingSpec;

/// "eps 1e-08 is 0 in fp16": a positive number that its format does not hold as one.
void check_vanishing(const std::string& what, double x, const Format& f,
                     std::vector<std::string>& lines) {
  if (x > 0 && round_to(f, x) == 0)
    lines.push_back(fmt::format("{} {:g} is 0 in {}", what, x, name_of(f)));
}

void check_norms(const TrainingSpec& s, std::vector<std::string>& lines) {
  const char* op = s.model.norm == train::Norm::layer_norm ? "layer_norm" : "rms_norm";
  std::set<std::string> told;
  for (int layer = -1; layer < s.model.layers; ++layer) {
    std::vector<std::string> here;
    check_vanishing("the norms' eps", s.model.norm_eps, s.policy.rule(op, layer).precision.compute,
                    here);
    for (const std::string& line : here)
      if (told.insert(line).second) lines.push_back(line);
  }
}

void check_optimizer(const TrainingSpec& s, std::vector<std::string>& lines) {
  const Format compute = s.policy.rule("adamw", -1).precision.compute;
  for (const auto& [name, beta] :
       {std::pair{"beta1", s.optimizer.beta1}, std::pair{"beta2", s.optimizer.beta2}})
    if (beta < 1 && round_to(compute, beta) == 1)
      lines.push_back(fmt::format("{} {:g} is 1 in {}: moments stay what they are", name, beta,
                                  name_of(compute)));
  check_vanishing("AdamW's eps", s.optimizer.eps, compute, lines);
}

/// AdamW moves a weight by about lr at first. Half an ulp of the weight or less is lost where the
/// master weights are rounded to nearest (bounds/README.md 9.1).
void check_lost_updates(const TrainingSpec& s, std::vector<std::string>& lines) {
  if (s.policy.stochastic) return;
  double deviation = 0;
  for (const train::ParameterSpec& p : train::parameters_of(s.model))
    deviation = std::max(deviation, p.deviation);
  const double least = ulp(s.policy.master, deviation) / 2;
  std::int64_t lost = 0;
  while (lost < s.steps && train::learning_rate(s.schedule, lost, s.steps) <= least) ++lost;
  if (lost > 0)
    lines.push_back(fmt::format(
        "the first {} of {} steps move a weight of {:g} by {:g} at most, half an ulp of {}: lost",
        lost, s.steps, deviation, least, name_of(s.policy.master)));
}

void check_scale(const TrainingSpec& s, std::vector<std::string>& lines) {
  if (s.policy.loss_scale == train::LossScale::none) return;
  int exponent = 0;
  if (std::frexp(s.policy.initial_scale, &exponent) != 0.5)
    lines.push_back(
        fmt::format("the loss scale {:g} is no power of two: scaling and unscaling round",
                    s.policy.initial_scale));
}

}  // namespace

std::vector<std::string> suspicious_settings(const TrainingSpec& s, std::int64_t windows) {
  std::vector<std::string> lines;
  check_norms(s, lines);
  check_optimizer(s, lines);
  check_lost_updates(s, lines);
  check_scale(s, lines);
  const std::int64_t used = s.steps * s.micro_batches * s.sequences;
  if (windows > 0 && used > windows)
    lines.push_back(fmt::format(
        "the text has {} windows of {} tokens, the run takes {}: each comes "
        "{:.1f} times",
        windows, s.model.context, used, static_cast<double>(used) / static_cast<double>(windows)));
  if (s.schedule.warmup_steps >= s.steps)
    lines.push_back(
        fmt::format("the warm-up of {} steps never ends in {}", s.schedule.warmup_steps, s.steps));
  if ((s.micro_batches & (s.micro_batches - 1)) != 0)
    lines.push_back(
        fmt::format("{} micro-batches are no power of two: their mean rounds", s.micro_batches));
  return lines;
}

}  // namespace opbound::trace
