#include "distributed/train/language_model.hpp"

#include <algorithm>

#include "distributed/train/forward.hpp"
#include "distributed/train/machine.hpp"
#include "distributed/train/program.hpp"
#include "distributed/train/state.hpp"

namespace opbound::train {
namespace {

/// What is only for training is left out.
Policy without_training(Policy policy) {
  policy.dropout = 0;
  policy.checkpointing = Checkpointing::none;
  return policy;
}

/// The forward pass ready to run. Tape and program point to each other's parts, so it stays where
/// it is.
class Forward {
 public:
  Forward(const TrainingSpec& spec, const std::map<std::string, Tensor>& weights,
          const std::string& device, std::int64_t batch, MakeProvider make_provider);

  std::vector<std::vector<double>> logits(std::span<const Tokens> sequences, bool only_last);

 private:
  std::byte* ids(const Ref& r) { return machine_->allocate(r.count() * bytes_of(Element::int64)); }
  void write_ids(std::byte* to, const std::vector<std::int64_t>& values) {
    machine_->write(to, values.data(), static_cast<std::int64_t>(values.size() * sizeof values[0]));
  }

  ModelSpec model_;
  std::int64_t batch_;
  Policy policy_;
  std::unique_ptr<Machine> machine_;
  ProviderTable providers_;
  Tape tape_;
  ForwardRefs refs_;
  std::byte *tokens_ = nullptr, *logits_ = nullptr;
  std::unique_ptr<Program> program_;
};

Forward::Forward(const TrainingSpec& spec, const std::map<std::string, Tensor>& weights,
                 const std::string& device, std::int64_t batch, MakeProvider make_provider)
    : model_(spec.model),
      batch_(batch),
      policy_(without_training(spec.policy)),
      machine_(device == "cpu" ? host_machine() : device_machine(device_number(device))),
      providers_(*machine_, std::move(make_provider)),
      tape_(policy_),
      refs_(record_forward(model_, tape_, batch)) {
  const Element element = tape_.value_of(refs_.logits).element;
  const Ref kept = tape_.hold({"logits", element, refs_.logits.size, Life::result, -1});
  tape_.keep(refs_.logits, kept);

  std::map<int, std::byte*> addresses;
  const std::vector<ParameterSpec> parameters = parameters_of(model_);
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const Tensor& given = weights.at(parameters[p].name);
    Tensor stored(weight_format(policy_, parameters[p]), parameters[p].shape);
    detail::require(given.shape() == stored.shape(), "weights are those of the model");
    for (std::int64_t i = 0; i < given.count(); ++i) stored.set(i, given.at(i));
    const auto bytes = static_cast<std::int64_t>(stored.bytes().size());
    std::byte* const there = machine_->allocate(bytes);
    machine_->write(there, stored.bytes().data(), bytes);
    addresses[refs_.weights[p].value] = there;
  }
  addresses[refs_.tokens.value] = tokens_ = ids(refs_.tokens);
  addresses[refs_.targets.value] = ids(refs_.targets);  // the loss of it is not read
  if (refs_.positions.exists()) {
    std::byte* const positions = addresses[refs_.positions.value] = ids(refs_.positions);
    std::vector<std::int64_t> at(static_cast<std::size_t>(refs_.positions.count()));
    for (std::size_t i = 0; i < at.size(); ++i)
      at[i] = static_cast<std::int64_t>(i) % model_.context;
    write_ids(positions, at);
  }
  addresses[kept.value] = logits_ = machine_->allocate(kept.count() * bytes_of(element));
  refs_.logits = kept;
  program_ = std::make_unique<Program>(
      tape_, *machine_,
      [&](int value) {
        const auto found = addresses.find(value);
        return found == addresses.end() ? nullptr : found->second;
      },
      providers_);
}

std::vector<std::vector<double>> Forward::logits(std::span<const Tokens> sequences,
                                                 bool only_last) {
  std::vector<std::vector<double>> rows(sequences.size());
  const Element element = tape_.value_of(refs_.logits).element;
  const auto row_bytes = static_cast<std::size_t>(model_.vocabulary * bytes_of(element));
  std::vector<std::byte> row(row_bytes);
  for (std::size_t first = 0; first < sequences.size(); first += static_cast<std::size_t>(batch_)) {
    // A causal model does not see what stands after a token, so what is free holds zeros.
    std::vector<std::int64_t> ids(static_cast<std::size_t>(batch_ * model_.context));
    const auto here = sequences.subspan(
        first, std::min(static_cast<std::size_t>(batch_), sequences.size() - first));
    for (std::size_t s = 0; s < here.size(); ++s)
      std::copy(here[s].begin(), here[s].end(),
                ids.begin() + static_cast<std::int64_t>(s) * model_.context);
    write_ids(tokens_, ids);
    program_->run(0);
    for (std::size_t s = 0; s < here.size(); ++s)
      for (std::size_t t = only_last ? here[s].size() - 1 : 0; t < here[s].size(); ++t) {
        const std::size_t at = s * static_cast<std::size_t>(model_.context) + t;
        machine_->read(row.data(), logits_ + at * row_bytes, static_cast<std::int64_t>(row_bytes));
        for (std::int64_t i = 0; i < model_.vocabulary; ++i)
          rows[first + s].push_back(load(element, row.data(), i));
      }
  }
  return rows;
}

}  // namespace

EvaluatedModel language_model(std::string name, const TrainingSpec& spec,
                              const std::map<std::string, Tensor>& weights,
                              const std::string& device, std::int64_t batch,
                              MakeProvider make_provider) {
  detail::require(batch > 0, "a call has sequences");
  const auto forward =
      std::make_shared<Forward>(spec, weights, device, batch, std::move(make_provider));
  return {std::move(name), spec.model.context, spec.model.vocabulary, batch,
          [forward](std::span<const Tokens> sequences, bool only_last) {
            return forward->logits(sequences, only_last);
          }};
}

}  // namespace opbound::train
