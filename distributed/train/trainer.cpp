#include "distributed/train/trainer.hpp"

#include <array>
#include <chrono>

#include "distributed/train/initial.hpp"
#include "distributed/train/state.hpp"
#include "ops/hash.hpp"
#include "reports/error.hpp"

namespace opbound::train {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

std::uint64_t hash_of(std::span<Tensor> weights) {
  std::uint64_t hash = 0;
  std::int64_t at = 0;
  for (Tensor& t : weights) {
    const TensorView view = t.view();
    for (std::int64_t i = 0; i < t.count(); ++i)
      hash += element_hash(at++, canonical_bits(view, i));
  }
  return hash;
}

Trainer::Trainer(const TrainingSpec& spec, const TrainOptions& options)
    : state_(std::make_unique<State>(spec, options)) {}

Trainer::~Trainer() = default;

const RunFacts& Trainer::facts() const { return state_->facts; }
std::int64_t Trainer::steps_done() const { return state_->step; }
std::int64_t Trainer::allocated_bytes() const { return state_->machine->allocated_bytes(); }
std::int64_t Trainer::arena_bytes() const {
  return state_->program->arena_bytes() + state_->optimizer.arena_bytes();
}

StepResult Trainer::step(StepTensors* tensors) {
  State& s = *state_;
  s.begin();
  for (Observer* o : s.observers) o->begin_step(s.step);
  if (tensors != nullptr) tensors->weights = weights();
  const Clock::time_point begin = Clock::now();
  StepResult result;
  result.step = s.step;
  result.loss_scale = s.scaler.scale();
  result.lr = learning_rate(s.spec.schedule, s.step, s.spec.steps);
  result.tokens = s.spec.micro_batches * s.rows();
  s.write_upstream();
  s.sum.begin();
  std::vector<double> losses;
  for (std::int64_t i = 0; i < s.sum.share().count; ++i) {
    s.start(s.sum.share().first + i, s.sum.next());
    s.sum.take();
    losses.push_back(s.read_loss());
  }
  s.sum.finish();
  for (Observer* o : s.observers) o->reduced(s.step);
  if (tensors != nullptr) s.record(*tensors);
  s.start_update(result.lr);
  const UpdateResult update = s.optimizer.result();
  result.gradient_norm = update.norm;
  result.is_skipped = update.is_skipped;
  result.loss = s.mean_loss(losses);
  if (update.is_skipped && s.spec.optimizer.clip_error_on_nonfinite &&
      s.spec.policy.loss_scale != LossScale::dynamic)
    throw ProviderFailure("step " + std::to_string(s.step) + ": " + s.first_nonfinite());
  s.scaler.update(update.is_skipped);
  if (!update.is_skipped) ++s.updates;
  for (Observer* o : s.observers) o->updated(result);
  for (Observer* o : s.observers) o->between_steps(s.step);
  if (!update.is_skipped || !s.observers.empty()) s.weights.refresh();
  ++s.step;
  result.time_ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  return result;
}

double Trainer::gradients(std::int64_t micro_batch, std::vector<Tensor>& to) {
  State& s = *state_;
  s.write_upstream();
  s.sum.begin();
  std::byte* const flat = s.sum.next();
  s.start(micro_batch, flat);
  const Element element = element_of(s.spec.policy.gradient);
  to.clear();
  for (std::size_t p = 0; p < s.layout.parameters().size(); ++p) {
    to.emplace_back(element, s.layout.parameters()[p].shape);
    s.machine->read(to.back().bytes().data(),
                    flat + s.layout.parameter(p).begin * bytes_of(element),
                    static_cast<std::int64_t>(to.back().bytes().size()));
  }
  return s.read_loss();
}

std::vector<Tensor> Trainer::weights() {
  return state_->gathered(state_->arrays.master, element_of(state_->spec.policy.master));
}

void Trainer::set_weights(const std::vector<Tensor>& weights) {
  state_->scatter(weights, state_->arrays.master);
  state_->weights.refresh();
}

bool Trainer::any(bool here) {
  const std::array<std::byte, 1> own{static_cast<std::byte>(here)};
  for (const std::byte b : state_->ranks->gather(own))
    if (b != std::byte{0}) return true;
  return false;
}

void Trainer::set_initial_weights() {
  std::vector<Tensor> initial;
  for (const ParameterSpec& p : state_->layout.parameters()) {
    Tensor t(state_->spec.policy.master, p.shape);
    std::vector<double> values(static_cast<std::size_t>(t.count()));
    fill_initial(p, state_->spec.seed, values);
    for (std::size_t i = 0; i < values.size(); ++i) t.set(static_cast<std::int64_t>(i), values[i]);
    initial.push_back(std::move(t));
  }
  set_weights(initial);
}

}  // namespace opbound::train
