#include "distributed/trace/training_again.hpp"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "distributed/trace/nearest_checkpoint.hpp"
#include "distributed/train/policy_check.hpp"
#include "distributed/train/weights.hpp"
#include "reports/error.hpp"
#include "reports/record.hpp"
#include "suites/suggest.hpp"

namespace opbound::trace {
namespace {

using train::Trainer;
using train::TrainingSpec;
using train::TrainOptions;

std::string number(std::int64_t n) { return std::to_string(n); }

void require_there(const TrainingSpec& spec, const AttributionRequest& request) {
  detail::require(!request.steps.empty(), "a step is asked for");
  for (const std::int64_t step : request.steps)
    if (step < 0 || step >= spec.steps)
      throw InputError("--step", number(step),
                       "0 to " + number(spec.steps - 1) + ", as the run has");
  const std::int64_t m = request.micro_batch.value_or(0);
  if (m < 0 || m >= spec.micro_batches)
    throw InputError("--micro-batch", number(m), "0 to " + number(spec.micro_batches - 1));
}

/// Refuses, before the first step, what there is no memory for.
class MemoryGuard final : public train::Observer {
 public:
  MemoryGuard(const AttributionRequest& request) : request_(request) {}

  void begin(const train::RunView& run) override {
    const ExactTape exact(run.tape, run.refs.loss.value);
    const std::int64_t bytes = attribution_bytes(exact, request_.with_replay);
    constexpr std::int64_t mib = 1 << 20;
    if (bytes > request_.most_bytes)
      throw InputError(
          "attribute", number((bytes + mib - 1) / mib) + " MiB for all values of a micro-batch",
          "at most the " + number(request_.most_bytes / mib) +
              " MiB of this machine: fewer --sequences in the run, or a smaller model");
  }

 private:
  const AttributionRequest& request_;
};

/// A trainer whose first micro-batch is one of another run.
class SampleOf final : public train::Observer {
 public:
  void sample(std::int64_t, std::int64_t, train::Sample& sample) override { sample = wanted; }
  train::Sample wanted;
};

/// What the run's samples are made of, as it goes.
class SampleNoted final : public train::Observer {
 public:
  void sample(std::int64_t, std::int64_t, train::Sample& sample) override { last = sample; }
  train::Sample last;
};

TrainingSpec swapped(TrainingSpec spec, const Swap& swap, double loss_scale) {
  train::OpRuleChange change;
  change.op = swap.part;
  change.where = "--swap " + swap.part;
  change.precision = precision_named(swap.how);
  if (!change.precision) change.provider = swap.how;
  if (change.precision) change.variant = "";  // the algorithm may not be there in that precision
  spec.policy.rules.push_back(change);
  spec.policy.initial_scale = loss_scale;
  if (change.precision && !detail::has_kernel(change.precision->compute))
    throw InputError(change.where, "no kernel computes in " + swap.how,
                     "a precision that computes in fp64, fp32, bf16 or fp16");
  train::require_possible(spec.policy);
  train::require_valid(spec, change.where);
  return spec;
}

/// A swap of what the model has not would change nothing, and say so as of an op that is right.
void require_part(const train::Tape& tape, const Swap& swap) {
  const auto is_it = [&](const train::Step& step) {
    return step.part == swap.part || step.spec.op->name == swap.part ||
           step.part.starts_with(swap.part + ":");
  };
  if (std::none_of(tape.steps().begin(), tape.steps().end(), is_it))
    throw InputError("--swap", "no call of '" + swap.part + "' in this run", "an op that it runs");
}

SwapResult swap_in(const train::RunView& run, const Captured& captured, const train::Sample& sample,
                   const Swap& swap, const AgainOptions& options) {
  require_part(run.tape, swap);
  double scale = 1;
  for (std::size_t v = 0; v < captured.values.size(); ++v)
    if (run.tape.values()[v].name == "loss scale") scale = captured.values[v].at(0);
  SampleOf other_sample;
  other_sample.wanted = sample;
  TrainOptions how;
  how.device = options.device;
  how.make_provider = options.make_provider;
  how.observers = {&other_sample};
  Trainer trainer(swapped(run.spec, swap, scale), how);
  std::vector<Tensor> weights;
  for (const Tensor& w : captured.master)
    weights.emplace_back(element_of(run.spec.policy.master), w.shape(), w.values());
  trainer.set_weights(weights);
  std::vector<Tensor> gradients;
  SwapResult result{swap, captured.step, captured.micro_batch, 0, 0, 0};
  result.loss = trainer.gradients(0, gradients);
  result.change =
      result.loss - captured.values[static_cast<std::size_t>(run.refs.loss.value)].at(0);
  double squares = 0, of_run = 0;
  for (std::size_t p = 0; p < gradients.size(); ++p) {
    const Tensor& low = captured.values[static_cast<std::size_t>(run.refs.gradients[p].value)];
    for (std::int64_t i = 0; i < low.count(); ++i) {
      const double difference = gradients[p].at(i) - low.at(i);
      squares += difference * difference;
      of_run += low.at(i) * low.at(i);
    }
  }
  result.gradient_change = squares == 0 ? 0 : std::sqrt(squares / of_run);
  return result;
}

/// The loss of every step that the log has comes again, or this is another run.
void require_same(const train::StepResult& step, const AgainOptions& options) {
  for (const train::StepResult& logged : options.logged) {
    if (logged.step != step.step) continue;
    const bool is_same =
        std::bit_cast<std::uint64_t>(logged.loss) == std::bit_cast<std::uint64_t>(step.loss) ||
        (logged.loss != logged.loss && step.loss != step.loss);
    if (!is_same)
      throw InputError(options.log,
                       "step " + number(step.step) + " has the loss " + hexadecimal(step.loss) +
                           " here and " + hexadecimal(logged.loss) + " in the log",
                       "the same bits: the run's device, version, first weights and, unless its "
                       "sum is reproducible, one rank");
  }
}

void begin_weights(Trainer& trainer, const TrainingSpec& spec, const AttributionRequest& request,
                   const AgainOptions& options) {
  const std::int64_t first = *request.steps.begin();
  if (!options.checkpoint.empty()) {
    if (resume_before(trainer, options.checkpoint, first, options.on_note)) return;
    if (options.on_note)
      options.on_note(options.checkpoint.string() + ": no checkpoint of before step " +
                      number(first) + ": from the beginning");
  }
  if (options.weights.empty()) return trainer.set_initial_weights();
  const auto by_name = train::read_weights(options.weights, spec.model, spec.policy.master);
  std::vector<Tensor> weights;
  for (const train::ParameterSpec& p : parameters_of(spec.model))
    weights.push_back(by_name.at(p.name));
  trainer.set_weights(weights);
}

}  // namespace

Swap read_swap(const std::string& text) {
  const auto sign = text.find('=');
  Swap swap{text.substr(0, sign), sign == std::string::npos ? "fp64" : text.substr(sign + 1)};
  std::vector<std::string_view> known{"head", "mlp"};
  for (const std::string_view op : train::ops_of_model()) known.push_back(op);
  for (const std::string_view op : train::ops_of_mlp())
    if (std::find(known.begin(), known.end(), op) != known.end() &&
        swap.part == "mlp:" + std::string(op))
      known.push_back(swap.part);
  if (std::find(known.begin(), known.end(), swap.part) == known.end())
    throw InputError("--swap", "no op " + detail::in_quotes_with_suggestion(swap.part, known),
                     detail::one_of(known));
  if (swap.how.empty())
    throw InputError("--swap", "'" + text + "'", "OP, OP=PRECISION or OP=PROVIDER");
  return swap;
}

std::int64_t machine_bytes() {
  return std::int64_t{sysconf(_SC_PHYS_PAGES)} * std::int64_t{sysconf(_SC_PAGE_SIZE)};
}

AttributedRun attribute_run(const TrainingSpec& spec, const AttributionRequest& request,
                            const AgainOptions& options) {
  require_there(spec, request);
  for (const Swap& swap : request.swaps) swapped(spec, swap, 1);  // refuses what cannot be
  AttributedRun result;
  MemoryGuard guard(request);
  SampleNoted noted;
  const auto is_wanted = [&](std::int64_t step, std::int64_t m) {
    return request.steps.contains(step) && (!request.micro_batch || *request.micro_batch == m);
  };
  const Capture* seen = nullptr;
  StepGradientSum gradients;
  const auto use = [&](Captured& captured) {
    GradientVectors vectors;
    result.parts.push_back(
        attribute(seen->run(), seen->exact(), captured, request.with_replay, &vectors));
    gradients.take(result.parts.back(), vectors);
    for (const Swap& swap : request.swaps)
      result.swaps.push_back(swap_in(seen->run(), captured, noted.last, swap, options));
  };
  const auto use_mean = [&](std::int64_t, const std::vector<Tensor>& mean) {
    auto step = gradients.finish(seen->run().layout, mean, spec.micro_batches);
    if (step) result.gradients.push_back(std::move(*step));
  };
  Capture capture(is_wanted, use, use_mean);
  seen = &capture;
  TrainOptions how;
  how.device = options.device;
  how.make_provider = options.make_provider;
  how.observers = options.observers;
  for (train::Observer* o :
       {static_cast<train::Observer*>(&guard), static_cast<train::Observer*>(&noted),
        static_cast<train::Observer*>(&capture)})
    how.observers.push_back(o);
  Trainer trainer(spec, how);
  begin_weights(trainer, spec, request, options);
  result.facts = trainer.facts();
  if (!options.data_sha256.empty() && options.data_sha256 != result.facts.data_sha256)
    throw InputError(spec.data, "another text than that of " + options.log,
                     "one of SHA-256 " + options.data_sha256);
  while (trainer.steps_done() <= *request.steps.rbegin()) {
    const train::StepResult step = trainer.step();
    require_same(step, options);
    if (options.on_step) options.on_step(step);
  }
  return result;
}

}  // namespace opbound::trace
