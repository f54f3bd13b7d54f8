// A run from its first step to its last: what a trainer does in between is trainer.cpp.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "distributed/train/checkpoint.hpp"
#include "distributed/train/log.hpp"
#include "distributed/train/state.hpp"
#include "distributed/train/weights.hpp"
#include "reports/error.hpp"
#include "suites/sha256.hpp"
#include "suites/tensor_file.hpp"

namespace opbound::train {
namespace {

constexpr std::array<std::string_view, 3> array_prefixes{"", "m.", "v."};

/// What has to be the same in the run that goes on.
nlohmann::json identity_of(const TrainingSpec& spec, const RunFacts& facts) {
  nlohmann::json identity = train::identity_of(json_of(spec));
  identity["data_sha256"] = facts.data_sha256;
  return identity;
}

/// The first key whose values differ, for a message.
std::string difference(const nlohmann::json& a, const nlohmann::json& b) {
  for (const auto& [key, value] : a.items())
    if (!b.contains(key) || b[key] != value) return key;
  for (const auto& [key, value] : b.items())
    if (!a.contains(key)) return key;
  return "nothing";
}

}  // namespace

void Trainer::save(const std::filesystem::path& folder) {
  State& s = *state_;
  for (Observer* o : s.observers) o->settle();
  Checkpoint checkpoint;
  checkpoint.step = s.step;
  const std::array<std::byte*, 3> arrays{s.arrays.master, s.arrays.m, s.arrays.v};
  for (std::size_t a = 0; a < arrays.size(); ++a) {
    std::vector<Tensor> tensors = s.gathered(arrays[a], element_of(s.spec.policy.master));
    for (std::size_t p = 0; p < tensors.size(); ++p)
      checkpoint.tensors.emplace(std::string(array_prefixes[a]) + s.layout.parameters()[p].name,
                                 std::move(tensors[p]));
  }
  checkpoint.metadata = {{"updates", s.updates},
                         {"loss_scale", s.scaler.scale()},
                         {"growth_tracker", s.scaler.tracker()},
                         {"run", identity_of(s.spec, s.facts)}};
  on_rank_0(folder, [&](CheckpointFolder& there) { there.write(checkpoint); });
}

void Trainer::claim(const std::filesystem::path& folder) {
  on_rank_0(folder, [](CheckpointFolder& there) { there.claim(); });
}

/// Nobody goes on before it is done, or waits for a rank that does not come.
void Trainer::on_rank_0(const std::filesystem::path& folder,
                        const std::function<void(CheckpointFolder&)>& act) {
  State& s = *state_;
  std::optional<InputError> failure;
  if (s.ranks->rank() == 0) {
    if (s.checkpoints == nullptr || s.checkpoint_folder != folder)
      s.checkpoints = std::make_unique<CheckpointFolder>(folder);
    s.checkpoint_folder = folder;
    try {
      act(*s.checkpoints);
    } catch (const InputError& e) {
      failure = e;
    }
  }
  if (!any(failure.has_value())) return;
  if (failure) throw *failure;
  throw InputError(folder.string(), "rank 0 could not write there",
                   "a folder of its own, and room");
}

bool Trainer::resume(const std::filesystem::path& folder,
                     const std::function<void(const std::string&)>& on_note) {
  State& s = *state_;
  std::vector<std::string> refused;
  const std::optional<Checkpoint> found = CheckpointFolder(folder).newest(refused);
  for (const std::string& line : refused)
    if (on_note) on_note(line);
  if (!found && !refused.empty())
    throw InputError(folder.string(), "no checkpoint that is good",
                     "one, or a run without --resume");
  if (!found) return false;
  const nlohmann::json own = identity_of(s.spec, s.facts);
  const nlohmann::json& told = found->metadata;
  const nlohmann::json run = told.contains("run") ? told["run"] : nlohmann::json();
  if (run != own)
    throw InputError(folder.string(),
                     "a checkpoint of another run: '" + difference(own, run) + "' is not the same",
                     "the run that wrote it, or another folder");
  const std::array<std::byte*, 3> arrays{s.arrays.master, s.arrays.m, s.arrays.v};
  for (std::size_t a = 0; a < arrays.size(); ++a) {
    std::vector<Tensor> tensors;
    for (const ParameterSpec& p : s.layout.parameters()) {
      const auto t = found->tensors.find(std::string(array_prefixes[a]) + p.name);
      if (t == found->tensors.end() || t->second.shape() != p.shape ||
          t->second.element() != element_of(s.spec.policy.master))
        throw InputError(folder.string(), "no tensor " + p.name + " of the model's shape",
                         "a checkpoint of this model");
      tensors.push_back(t->second);
    }
    s.scatter(tensors, arrays[a]);
  }
  const auto is_number = [&](const char* key) {
    return told.contains(key) && told[key].is_number();
  };
  if (!is_number("updates") || !is_number("loss_scale") || !is_number("growth_tracker"))
    throw InputError(folder.string(), "a checkpoint without updates, loss_scale, growth_tracker",
                     "one that opbound wrote");
  s.step = found->step;
  s.updates = told["updates"].get<std::int64_t>();
  s.scaler.restore(told["loss_scale"].get<double>(), told["growth_tracker"].get<std::int64_t>());
  s.weights.refresh();
  return true;
}

void Trainer::require_alike() {
  State& s = *state_;
  const std::vector<Tensor> parts = weights();
  std::vector<Tensor> all(parts);
  nlohmann::json own = json_of(s.spec);
  own["data_sha256"] = s.facts.data_sha256;
  own["version"] = s.machine->own().version();
  own["step"] = s.step;
  own["weights"] = hash_of(std::span(all));
  const std::string text = own.dump();
  Sha256 digest;
  digest.take(std::as_bytes(std::span(text)));
  const std::string word = digest.digest();
  const std::vector<std::byte> words = s.ranks->gather(std::as_bytes(std::span(word)));
  for (std::int32_t r = 1; r < s.ranks->size(); ++r)
    if (std::memcmp(words.data() + static_cast<std::size_t>(r) * word.size(), words.data(),
                    word.size()) != 0)
      throw InputError("rank " + std::to_string(r),
                       "another file, flag, text, version or checkpoint than rank 0",
                       "the same on every rank, and checkpoints that all of them see");
}

namespace {

void load_weights(Trainer& trainer, const TrainingSpec& spec, const std::filesystem::path& file) {
  const auto by_name = read_weights(file, spec.model, spec.policy.master);
  std::vector<Tensor> weights;
  for (const ParameterSpec& p : parameters_of(spec.model)) weights.push_back(by_name.at(p.name));
  trainer.set_weights(weights);
}

void save_weights(const TrainingSpec& spec, const std::vector<Tensor>& weights,
                  const std::filesystem::path& file) {
  std::map<std::string, Tensor> by_name;
  const std::vector<ParameterSpec> parameters = parameters_of(spec.model);
  for (std::size_t p = 0; p < parameters.size(); ++p)
    by_name.emplace(parameters[p].name, weights[p]);
  write_weights(file, spec.model, by_name);
}

/// One .safetensors file: "weight.NAME", "gradient.NAME", "tokens", "targets"; "loss" and
/// "loss_scale" as fp64 of one element.
void write_step(const TrainingSpec& spec, const StepResult& result, const StepTensors& tensors,
                const std::filesystem::path& folder) {
  std::map<std::string, Tensor> all{{"tokens", tensors.tokens}, {"targets", tensors.targets}};
  const std::vector<ParameterSpec> parameters = parameters_of(spec.model);
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    all.emplace("weight." + parameters[p].name, tensors.weights[p]);
    all.emplace("gradient." + parameters[p].name, tensors.gradient[p]);
  }
  const auto scalar = [](double x) { return Tensor(fp64, {1}, std::span(&x, 1)); };
  all.emplace("loss", scalar(result.loss));
  all.emplace("loss_scale", scalar(result.loss_scale));
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) throw InputError(folder.string(), failed.message(), "a folder that can be made");
  write_safetensors(folder / fmt::format("step-{:012}.safetensors", result.step), all);
}

/// A run that begins anew does not write among another's checkpoints: who resumes later would get
/// those of the later steps.
void require_fresh(const std::filesystem::path& folder) {
  if (folder.empty()) return;
  std::vector<std::string> refused;
  if (CheckpointFolder(folder).newest(refused) || !refused.empty())
    throw InputError(folder.string(), "checkpoints of an earlier run",
                     "--resume to go on from them, --checkpoint with another folder, or none of "
                     "them there");
}

/// What a run writes at its end can be written: asked before hours are spent.
void require_writable(const std::filesystem::path& folder, const std::string& what) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed || access(folder.c_str(), W_OK) != 0)
    throw InputError(what,
                     folder.string() + ": " + (failed ? failed.message() : std::strerror(errno)),
                     "a folder that can be written");
}

void require_outputs(const TrainOptions& options) {
  if (!options.checkpoint_folder.empty())
    require_writable(options.checkpoint_folder, "checkpoints");
  const std::filesystem::path& file = options.save_weights;
  if (!file.empty()) require_writable(file.has_parent_path() ? file.parent_path() : ".", "weights");
  const bool is_lost = options.checkpoint_folder.empty() && !options.interrupt_folder.empty() &&
                       access(".", W_OK) != 0;
  if (is_lost && options.on_note)
    options.on_note("nothing can be written here: an interrupt would lose the run");
}

/// The next step; nothing where the trainer was taken back instead.
std::optional<StepResult> judged_step(Trainer& trainer, const TrainOptions& options,
                                      StepTensors& tensors) {
  std::optional<StepResult> done;
  std::optional<ProviderFailure> failure;
  try {
    done = trainer.step(options.tensors.empty() ? nullptr : &tensors);
  } catch (const ProviderFailure& e) {
    if (!options.judge) throw;
    failure = e;
  }
  if (options.judge && options.judge(trainer)) {
    if (options.on_back) options.on_back(trainer.steps_done());
    return std::nullopt;
  }
  if (failure) throw *failure;
  return done;
}

}  // namespace

TrainResult train(const TrainingSpec& spec, const TrainOptions& options) {
  if (!options.resume)
    require_fresh(options.checkpoint_folder.empty() ? options.interrupt_folder
                                                    : options.checkpoint_folder);
  require_outputs(options);
  Trainer trainer(spec, options);
  if (!options.checkpoint_folder.empty()) {
    trainer.claim(options.checkpoint_folder);
    if (!options.resume) require_fresh(options.checkpoint_folder);  // nobody else writes any more
  }
  const bool goes_on = options.resume && trainer.resume(options.checkpoint_folder, options.on_note);
  if (options.resume && !goes_on && options.on_note)
    options.on_note("no checkpoint to resume in " + options.checkpoint_folder.string() +
                    ": from the beginning");
  if (!goes_on) {
    if (options.weights.empty())
      trainer.set_initial_weights();
    else
      load_weights(trainer, spec, options.weights);
  }
  trainer.require_alike();
  RunFacts facts = trainer.facts();
  facts.first_step = trainer.steps_done();
  if (options.on_start) options.on_start(facts);
  TrainResult result;
  bool is_first = true;
  std::int64_t saved = -1;
  const auto save = [&] {
    const bool is_elsewhere = options.checkpoint_folder.empty() && result.is_interrupted;
    const auto& folder = is_elsewhere ? options.interrupt_folder : options.checkpoint_folder;
    if (folder.empty() || saved == trainer.steps_done()) return;
    trainer.save(folder);
    saved = trainer.steps_done();
  };
  while (trainer.steps_done() < spec.steps && !result.is_interrupted) {
    StepTensors tensors;
    const std::optional<StepResult> done = judged_step(trainer, options, tensors);
    if (!done) continue;
    const StepResult& step = *done;
    if (!options.tensors.empty() && trainer.facts().rank == 0)
      write_step(spec, step, tensors, options.tensors);
    if (is_first) result.first_loss = step.loss;
    is_first = false;
    result.last_loss = step.loss;
    if (options.on_step) options.on_step(step);
    result.is_interrupted = trainer.any(options.should_stop && options.should_stop());
    if (spec.checkpoint_every > 0 && trainer.steps_done() % spec.checkpoint_every == 0) save();
  }
  save();
  for (Observer* o : options.observers) o->settle();
  std::vector<Tensor> weights = trainer.weights();
  if (!options.save_weights.empty() && trainer.facts().rank == 0)
    save_weights(spec, weights, options.save_weights);
  result.hash = hash_of(weights);
  result.steps = trainer.steps_done();
  result.allocated_bytes = trainer.allocated_bytes();
  result.arena_bytes = trainer.arena_bytes();
  return result;
}

}  // namespace opbound::train
