#include <algorithm>
#include <vector>

#include "distributed/train/evaluate.hpp"
#include "reports/text.hpp"

namespace opbound::train {
namespace {

std::string whole(std::int64_t n) { return std::to_string(n); }

std::vector<Cell> row_of(const std::string& name, const PromptResult& p) {
  const bool is_bad = p.nonfinite > 0;
  const double share =
      p.positions == 0 ? 1 : static_cast<double>(p.top1_equal) / static_cast<double>(p.positions);
  return {{name},
          {whole(p.positions)},
          {is_bad ? whole(p.nonfinite) : "", Colour::bad},
          {legible(p.kl_mean_nats())},
          {legible(p.kl_max_nats)},
          {legible(100 * share)},
          {whole(p.length_a)},
          {whole(p.length_b)},
          {whole(p.equal_tokens)}};
}

}  // namespace

std::string evaluation_table(const Evaluation& e, const Terminal& terminal, bool every_prompt) {
  Table table({{.title = "prompt", .least_width = 16},
               {.title = "positions", .number = true, .dispensable = 1},
               {.title = "not finite", .number = true},
               {.title = "mean KL, nats", .number = true},
               {.title = "max KL", .number = true},
               {.title = "top-1 equal, %", .number = true},
               {.title = "length a", .number = true},
               {.title = "length b", .number = true},
               {.title = "equal tokens", .number = true, .dispensable = 2}});
  const EvaluationTotals totals = totals_of(e.prompts);
  table.add_row(row_of("all " + whole(static_cast<std::int64_t>(e.prompts.size())), totals.all));
  table.add_rule();
  std::vector<const PromptResult*> shown;
  for (const PromptResult& p : e.prompts) shown.push_back(&p);
  if (!every_prompt) {
    constexpr std::size_t most = 10;
    std::stable_sort(shown.begin(), shown.end(), [](const PromptResult* a, const PromptResult* b) {
      return std::pair(a->nonfinite, a->kl_mean_nats()) >
             std::pair(b->nonfinite, b->kl_mean_nats());
    });
    shown.resize(std::min(most, shown.size()));
  }
  for (const PromptResult* p : shown)
    table.add_row(row_of(printable(p->name, terminal.unicode), *p));
  const bool shows_all = shown.size() == e.prompts.size();
  return table.terminal(terminal) + "a: " + printable(e.name_a, terminal.unicode) +
         "; b: " + printable(e.name_b, terminal.unicode) + "; KL(a || b)" +
         (shows_all
              ? ""
              : "; shown: the " + std::to_string(shown.size()) + " prompts with the largest mean") +
         "\ngenerated length: equal for " + whole(totals.equal_lengths) + " of " +
         whole(static_cast<std::int64_t>(e.prompts.size())) + " prompts, b - a is " +
         legible(totals.length_change_mean) + " in the mean, its size " +
         legible(totals.length_deviation_mean) + "\n";
}

}  // namespace opbound::train
