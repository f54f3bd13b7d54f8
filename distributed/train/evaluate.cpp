#include "distributed/train/evaluate.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "ops/number.hpp"
#include "ops/tensor.hpp"
#include "reports/error.hpp"

namespace opbound::train {
namespace {

using Row = std::span<const double>;

/// The most likely token, the first of several; nothing where a logit is not finite.
std::optional<std::int64_t> most_likely(Row logits) {
  std::size_t best = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (!std::isfinite(logits[i])) return std::nullopt;
    if (logits[i] > logits[best]) best = i;
  }
  return static_cast<std::int64_t>(best);
}

/// log of the sum of exponentials, and the largest logit that it is relative to.
struct Normalizer {
  explicit Normalizer(Row logits) : largest(*std::max_element(logits.begin(), logits.end())) {
    double sum = 0;
    for (const double x : logits) sum += exp(x - largest);
    log_sum = log(sum);
  }
  double log_share(double logit) const { return (logit - largest) - log_sum; }

  double largest, log_sum = 0;
};

/// How far an evaluation is, in prompts that pass through a model once: all of them for their
/// positions, and once for each token that may be generated.
class Course {
 public:
  Course(const EvaluationOptions& options, std::size_t prompts)
      : tell_(options.on_progress),
        total_(2 * static_cast<std::int64_t>(prompts) * (1 + options.most_tokens)) {}

  void advance(std::size_t prompts, std::string_view what) {
    done_ += static_cast<std::int64_t>(prompts);
    if (tell_) tell_(done_, total_, what);
  }

 private:
  const std::function<void(std::int64_t, std::int64_t, std::string_view)>& tell_;
  std::int64_t total_, done_ = 0;
};

/// The last `most` tokens.
Tokens window_of(const Tokens& tokens, std::int64_t most) {
  const auto n = static_cast<std::int64_t>(tokens.size());
  return {tokens.begin() + std::max<std::int64_t>(0, n - most), tokens.end()};
}

/// The sequences as calls of at most `batch`.
std::vector<std::span<const Tokens>> in_batches(std::span<const Tokens> sequences,
                                                std::int64_t batch) {
  std::vector<std::span<const Tokens>> parts;
  while (!sequences.empty()) {
    const std::size_t n = std::min(sequences.size(), static_cast<std::size_t>(batch));
    parts.push_back(sequences.first(n));
    sequences = sequences.subspan(n);
  }
  return parts;
}

void compare_rows(Row a, Row b, PromptResult& result) {
  const auto top_a = most_likely(a), top_b = most_likely(b);
  if (!top_a || !top_b) {
    ++result.nonfinite;
    return;
  }
  ++result.positions;
  const double kl = kl_nats(a, b);
  result.kl_sum_nats += kl;
  result.kl_max_nats = std::max(result.kl_max_nats, kl);
  if (*top_a == *top_b) ++result.top1_equal;
}

void compare_positions(const EvaluatedModel& a, const EvaluatedModel& b,
                       std::span<const Tokens> windows, std::span<PromptResult> results) {
  const auto rows_a = a.logits(windows, false), rows_b = b.logits(windows, false);
  const auto vocabulary = static_cast<std::size_t>(a.vocabulary);
  for (std::size_t i = 0; i < windows.size(); ++i) {
    detail::require(
        rows_a[i].size() == windows[i].size() * vocabulary && rows_b[i].size() == rows_a[i].size(),
        "a model gives a row of logits for each token");
    for (std::size_t t = 0; t < windows[i].size(); ++t)
      compare_rows(Row(rows_a[i]).subspan(t * vocabulary, vocabulary),
                   Row(rows_b[i]).subspan(t * vocabulary, vocabulary), results[i]);
  }
}

/// The most likely token after each sequence.
std::vector<std::optional<std::int64_t>> next_tokens(const EvaluatedModel& model,
                                                     std::span<const Tokens> sequences,
                                                     Course& course) {
  std::vector<std::optional<std::int64_t>> next;
  for (const auto& part : in_batches(sequences, model.batch)) {
    for (const std::vector<double>& row : model.logits(part, true))
      next.push_back(most_likely(row));
    course.advance(part.size(), model.name + " writes");
  }
  return next;
}

/// What the model writes after each of the windows: all of them one token further at a time, so
/// that calls stay full while some have ended.
std::vector<Tokens> generated(const EvaluatedModel& model, std::span<const Tokens> windows,
                              std::int64_t context, const EvaluationOptions& options,
                              Course& course) {
  std::vector<Tokens> sequences(windows.begin(), windows.end()), written(windows.size());
  std::vector<std::size_t> alive;
  for (std::size_t i = 0; i < windows.size(); ++i) alive.push_back(i);
  std::int64_t n = 0;
  for (; n < options.most_tokens && !alive.empty(); ++n) {
    std::vector<Tokens> asked;
    for (const std::size_t i : alive) asked.push_back(window_of(sequences[i], context));
    const auto next = next_tokens(model, asked, course);
    course.advance(windows.size() - alive.size(), model.name + " writes");
    std::vector<std::size_t> going_on;
    for (std::size_t k = 0; k < alive.size(); ++k) {
      if (!next[k] || *next[k] == options.stop) continue;
      written[alive[k]].push_back(*next[k]);
      sequences[alive[k]].push_back(*next[k]);
      going_on.push_back(alive[k]);
    }
    alive = std::move(going_on);
  }
  course.advance(static_cast<std::size_t>(options.most_tokens - n) * windows.size(), "");
  return written;
}

void require_comparable(const EvaluatedModel& a, const EvaluatedModel& b,
                        std::span<const Prompt> prompts) {
  if (a.vocabulary != b.vocabulary)
    throw InputError(b.name, std::to_string(b.vocabulary) + " tokens in its vocabulary",
                     std::to_string(a.vocabulary) + " as in " + a.name);
  for (const Prompt& p : prompts)
    for (const std::int64_t token : p.tokens)
      if (token < 0 || token >= a.vocabulary)
        throw InputError("prompt '" + p.name + "'", "token " + std::to_string(token),
                         "0 to " + std::to_string(a.vocabulary - 1));
}

}  // namespace

double kl_nats(std::span<const double> p_logits, std::span<const double> q_logits) {
  const Normalizer p(p_logits), q(q_logits);
  double sum = 0;
  for (std::size_t i = 0; i < p_logits.size(); ++i) {
    // p ln(p/q) - p + q: no term is negative, and the last two add up to 0. With d = ln(p/q) it is
    // p (d + e^-d - 1), which keeps its digits where p and q are near each other.
    const double log_p = p.log_share(p_logits[i]), log_q = q.log_share(q_logits[i]);
    const double d = log_p - log_q, share = exp(log_p);
    const bool is_near = std::abs(d) < 1;
    sum += std::max(0.0, is_near ? share * (d + expm1(-d)) : share * d - share + exp(log_q));
  }
  return sum;
}

double PromptResult::kl_mean_nats() const {
  return positions == 0 ? 0 : kl_sum_nats / static_cast<double>(positions);
}

double EvaluationTotals::top1_share() const {
  return all.positions == 0
             ? 1
             : static_cast<double>(all.top1_equal) / static_cast<double>(all.positions);
}

EvaluationTotals totals_of(std::span<const PromptResult> prompts) {
  EvaluationTotals t;
  std::int64_t change = 0, deviation = 0;
  for (const PromptResult& p : prompts) {
    t.all.positions += p.positions;
    t.all.nonfinite += p.nonfinite;
    t.all.kl_sum_nats += p.kl_sum_nats;
    t.all.kl_max_nats = std::max(t.all.kl_max_nats, p.kl_max_nats);
    t.all.top1_equal += p.top1_equal;
    t.all.length_a += p.length_a;
    t.all.length_b += p.length_b;
    t.all.equal_tokens += p.equal_tokens;
    if (p.length_a == p.length_b) ++t.equal_lengths;
    change += p.length_b - p.length_a;
    deviation += std::abs(p.length_b - p.length_a);
  }
  if (prompts.empty()) return t;
  t.length_change_mean = static_cast<double>(change) / static_cast<double>(prompts.size());
  t.length_deviation_mean = static_cast<double>(deviation) / static_cast<double>(prompts.size());
  return t;
}

Evaluation evaluate(const EvaluatedModel& a, const EvaluatedModel& b,
                    std::span<const Prompt> prompts, const EvaluationOptions& options) {
  require_comparable(a, b, prompts);
  const std::int64_t context = std::min(a.context, b.context);
  Evaluation evaluation{a.name, b.name, {}};
  std::vector<Tokens> windows;
  for (const Prompt& p : prompts) {
    windows.push_back(window_of(p.tokens, context));
    evaluation.prompts.emplace_back().name = p.name;
  }
  std::span<PromptResult> results(evaluation.prompts);
  Course course(options, windows.size());
  for (const auto& part : in_batches(windows, std::min(a.batch, b.batch))) {
    compare_positions(a, b, part, results.first(part.size()));
    results = results.subspan(part.size());
    course.advance(2 * part.size(), "both on the prompts");
  }
  const std::vector<Tokens> by_a = generated(a, windows, context, options, course);
  const std::vector<Tokens> by_b = generated(b, windows, context, options, course);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    PromptResult& result = evaluation.prompts[i];
    result.length_a = static_cast<std::int64_t>(by_a[i].size());
    result.length_b = static_cast<std::int64_t>(by_b[i].size());
    const auto differs =
        std::mismatch(by_a[i].begin(), by_a[i].end(), by_b[i].begin(), by_b[i].end());
    result.equal_tokens = differs.first - by_a[i].begin();
  }
  return evaluation;
}

}  // namespace opbound::train
