#include "tools/command_train_evaluate.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "distributed/train/language_model.hpp"
#include "distributed/train/weights.hpp"
#include "reports/error.hpp"
#include "reports/progress.hpp"
#include "reports/table.hpp"
#include "reports/text.hpp"
#include "suites/folder.hpp"
#include "tools/command_line.hpp"

namespace opbound {
namespace {

namespace fs = std::filesystem;
using train::TrainingSpec;

bool names_weights(const std::string& word) {
  std::error_code ignored;
  return word.ends_with(".safetensors") || fs::is_directory(word, ignored);
}

/// As many sequences at once as have their logits in 256 MiB, at most 16.
std::int64_t batch_of(const train::ModelSpec& m) {
  constexpr std::int64_t most = 16, numbers = std::int64_t{1} << 25;
  return std::clamp<std::int64_t>(numbers / (m.context * m.vocabulary), 1, most);
}

train::EvaluatedModel model_of(const TrainingSpec& spec, const fs::path& weights,
                               const std::string& device) {
  return train::language_model(
      spec.policy.name + " of " + weights.string(), spec,
      train::read_weights(weights, spec.model, spec.policy.master), device, batch_of(spec.model),
      [device](const std::string& name, const std::optional<PluginPlace>& place) {
        return plugin_of_policy(name, device, place);
      });
}

/// Minutes pass: who watches a terminal sees how far it is, and everybody else what is going on.
train::Evaluation watched_evaluation(const train::EvaluatedModel& a, const train::EvaluatedModel& b,
                                     bool is_quiet) {
  const std::vector<train::Prompt> prompts = train::corner_case_prompts();
  if (is_quiet) return train::evaluate(a, b, prompts);
  if (isatty(STDERR_FILENO) == 0)
    std::fprintf(stderr, "opbound: %s beside %s, %zu prompts: the table comes at the end\n",
                 a.name.c_str(), b.name.c_str(), prompts.size());
  std::optional<Progress> progress;
  std::int64_t before = 0;
  train::EvaluationOptions how;
  how.on_progress = [&](std::int64_t done, std::int64_t total, std::string_view what) {
    if (!progress) progress.emplace(static_cast<std::uint64_t>(total), "opbound train");
    progress->advance(static_cast<std::uint64_t>(done - before), what);
    before = done;
  };
  return train::evaluate(a, b, prompts, how);
}

std::string last_line(const train::Evaluation& evaluation) {
  const train::EvaluationTotals totals = train::totals_of(evaluation.prompts);
  return fmt::format("KL {} nats, top-1 equal {}%, lengths equal {} of {}, not finite {}\n",
                     legible(totals.all.kl_mean_nats()), legible(100 * totals.top1_share()),
                     totals.equal_lengths, evaluation.prompts.size(), totals.all.nonfinite);
}

}  // namespace

int evaluate_against(const TrainingSpec& spec, const EvaluateOptions& options) {
  if (options.weights.empty())
    throw InputError("--evaluate", "no weights",
                     "--weights FILE.safetensors, or --checkpoint FOLDER, of a trained model");
  TrainingSpec other = spec;
  fs::path other_weights = options.weights;
  if (names_weights(options.other)) {
    other_weights = options.other;
  } else {
    try {
      other.policy = train::read_policy(options.other);
      train::require_valid(other, options.other);
    } catch (const InputError& e) {
      throw InputError("--evaluate", e.what());
    }
  }
  const train::Evaluation evaluation =
      watched_evaluation(model_of(spec, options.weights, options.device),
                         model_of(other, other_weights, options.device), options.is_quiet);
  print(options.is_quiet ? last_line(evaluation)
                         : train::evaluation_table(evaluation, Terminal::of(1)));
  return exit_clean;
}

}  // namespace opbound
