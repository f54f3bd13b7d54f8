// Two models side by side on a set of prompts: how far apart their next-token distributions are,
// and what each of them writes when it takes the most likely token every time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "distributed/train/prompts.hpp"
#include "reports/table.hpp"

namespace opbound::train {

/// A model as an evaluation asks it.
struct EvaluatedModel {
  std::string name;
  std::int64_t context = 0;     ///< a sequence has 1 to so many tokens
  std::int64_t vocabulary = 0;  ///< tokens are 0 to vocabulary - 1
  std::int64_t batch = 1;       ///< sequences of one call, at most
  /// The logits of the token after each token of each sequence, row-major [tokens, vocabulary];
  /// with `only_last` one row, after the last.
  std::function<std::vector<std::vector<double>>(std::span<const Tokens>, bool only_last)> logits;
};

struct EvaluationOptions {
  std::int64_t most_tokens = 100;  ///< that are generated for a prompt; the project's text has
                                   ///< lines of 92
  std::int64_t stop = '\n';        ///< ends what is generated, and is no part of it
  /// Told now and then how much of the total is done, and what is being done.
  std::function<void(std::int64_t done, std::int64_t total, std::string_view what)> on_progress{};
};

/// One prompt. Of a prompt longer than the shorter context only the last tokens count.
struct PromptResult {
  std::string name;
  std::int64_t positions = 0;  ///< at which both distributions exist
  std::int64_t nonfinite = 0;  ///< at which a logit was NaN or infinite: not counted elsewhere
  double kl_sum_nats = 0;      ///< of KL(a || b) over the positions
  double kl_max_nats = 0;
  std::int64_t top1_equal = 0;              ///< positions with the same most likely token
  std::int64_t length_a = 0, length_b = 0;  ///< generated tokens
  std::int64_t equal_tokens = 0;            ///< before the first generated one that differs

  double kl_mean_nats() const;
  bool operator==(const PromptResult&) const = default;
};

struct Evaluation {
  std::string name_a, name_b;
  std::vector<PromptResult> prompts;
};

/// Sums over all prompts; means are over positions, or over prompts for lengths.
struct EvaluationTotals {
  PromptResult all;                  ///< sums, and the largest kl_max
  std::int64_t equal_lengths = 0;    ///< prompts
  double length_change_mean = 0;     ///< of length_b - length_a
  double length_deviation_mean = 0;  ///< of its absolute value
  double top1_share() const;         ///< of the positions; 1 where there is none
};
EvaluationTotals totals_of(std::span<const PromptResult> prompts);

/// KL(p || q) in nats of two rows of finite logits: 0 for equal rows and never negative.
double kl_nats(std::span<const double> p_logits, std::span<const double> q_logits);

/// Every prompt through both models. Throws InputError for different vocabularies, or for a token
/// that neither has.
Evaluation evaluate(const EvaluatedModel& a, const EvaluatedModel& b,
                    std::span<const Prompt> prompts, const EvaluationOptions& options = {});

/// A row for all prompts together, and one for each of the ten with the largest mean KL, or for all
/// of them in their order.
std::string evaluation_table(const Evaluation& evaluation, const Terminal& terminal,
                             bool every_prompt = false);

}  // namespace opbound::train
