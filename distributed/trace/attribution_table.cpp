#include "distributed/trace/attribution_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "distributed/trace/attribution_mean.hpp"
#include "reports/text.hpp"

namespace opbound::trace {
namespace {

constexpr std::size_t most_rows = 12;  // of the longer tables; the records have all

std::string signed_number(double x) { return x == 0 ? "0" : fmt::format("{:+.3g}", x); }
std::string size_number(double x) { return x == 0 ? "0" : fmt::format("{:.3g}", x); }
std::string percent(double share) { return size_number(100 * share) + "%"; }

double over(double a, double b) { return a == 0 ? 0 : a / b; }

std::string name_of_layer(int layer) { return layer < 0 ? "none" : std::to_string(layer); }

double squared(double x) { return x * x; }

/// Sums over classes.
struct Group {
  std::string name;
  double loss = 0, squares = 0;  ///< of contributions
  double expected_squares = 0;
  double replayed = 0;
  double gradient_squares = 0, gradient_share = 0;

  void add(const ClassContribution& c) {
    loss += c.loss;
    squares += squared(c.loss);
    expected_squares += squared(c.loss_expected);
    replayed += c.loss_replayed.value_or(0);
    gradient_squares += squared(c.gradient.value_or(0));
    gradient_share += c.gradient_share.value_or(0);
  }
};

std::vector<Column> columns_of(const std::string& title) {
  return {{.title = title},
          {.title = "loss", .number = true},
          {.title = "of squares", .number = true},
          {.title = "expected", .number = true, .dispensable = 3},
          {.title = "replayed", .number = true, .dispensable = 2},
          {.title = "gradient", .number = true},
          {.title = "its share", .number = true, .dispensable = 1}};
}

std::vector<Cell> row_of(const Group& g, const Attribution& a, std::string name) {
  const bool has_gradient = a.replay && a.replay->gradient;
  return {{std::move(name)},
          {signed_number(g.loss)},
          {percent(over(g.squares, squared(a.root_of_squares)))},
          {g.expected_squares == 0 ? "" : "+-" + size_number(std::sqrt(g.expected_squares))},
          {a.replay ? signed_number(g.replayed) : ""},
          {has_gradient ? percent(std::sqrt(g.gradient_squares)) : ""},
          {has_gradient ? percent(g.gradient_share) : ""}};
}

using Name = std::function<std::string(const CallClass&)>;

/// Groups in the order in which their first class comes.
std::vector<Group> groups_of(const Attribution& a, const Name& name) {
  std::vector<Group> groups;
  for (const ClassContribution& c : a.classes) {
    const std::string own = name(c.where);
    auto found =
        std::find_if(groups.begin(), groups.end(), [&](const Group& g) { return g.name == own; });
    if (found == groups.end()) found = groups.insert(groups.end(), Group{.name = own});
    found->add(c);
  }
  return groups;
}

std::string table_by(const std::string& title, const Attribution& a, const Terminal& terminal,
                     const Name& name) {
  Table table(columns_of(title));
  for (const Group& g : groups_of(a, name)) table.add_row(row_of(g, a, g.name));
  return table.terminal(terminal) + "\n";
}

std::string full_name(const CallClass& c) {
  std::string name = c.part;
  if (c.layer >= 0) name += fmt::format(", layer {}", c.layer);
  return fmt::format("{}, {}, {}", name, pass_names[static_cast<std::size_t>(c.pass)], c.precision);
}

std::string largest_classes(const Attribution& a, const Terminal& terminal) {
  std::vector<Group> groups = groups_of(a, full_name);
  // By what they do to the loss, or where that is nothing, to the gradient.
  const auto weight = [&](const Group& g) {
    return std::max(over(std::sqrt(g.squares), a.root_of_squares),
                    a.replay && a.replay->gradient
                        ? over(std::sqrt(g.gradient_squares), a.replay->gradient->measured)
                        : 0);
  };
  std::stable_sort(groups.begin(), groups.end(),
                   [&](const Group& x, const Group& y) { return weight(x) > weight(y); });
  Table table(columns_of("largest classes"));
  for (std::size_t i = 0; i < std::min(most_rows, groups.size()); ++i)
    if (weight(groups[i]) > 0) table.add_row(row_of(groups[i], a, groups[i].name));
  return table.terminal(terminal) + "\n";
}

std::string parameters_of_step(const GradientDeviation& g, const std::string& title,
                               const Terminal& terminal) {
  std::vector<const ParameterDeviation*> all;
  for (const ParameterDeviation& p : g.parameters) all.push_back(&p);
  std::stable_sort(all.begin(), all.end(),
                   [](const auto* x, const auto* y) { return x->measured > y->measured; });
  Table table({{.title = title},
               {.title = "deviates", .number = true},
               {.title = "predicted", .number = true},
               {.title = "unattributed", .number = true},
               {.title = "at most", .number = true}});
  for (std::size_t i = 0; i < std::min(most_rows, all.size()); ++i) {
    const ParameterDeviation& p = *all[i];
    table.add_row({{p.name},
                   {percent(p.measured)},
                   {percent(p.predicted)},
                   {percent(p.unattributed)},
                   {percent(p.largest), p.is_within() ? Colour::plain : Colour::bad}});
  }
  return table.terminal(terminal) + "\n";
}

std::string within(const GradientDeviation& g) {
  const auto count = std::count_if(g.parameters.begin(), g.parameters.end(),
                                   [](const ParameterDeviation& p) { return p.is_within(); });
  return fmt::format("{} of {} parameters within the sum of their classes' errors", count,
                     g.parameters.size());
}

std::string step_gradient(const StepGradient& g) {
  return fmt::format(
      "mean gradient of the step's {} micro-batches: deviates by {}, predicted {}, unattributed "
      "{};\n{}\n\n",
      g.micro_batches, percent(g.deviation.measured), percent(g.deviation.predicted),
      percent(g.deviation.unattributed), within(g.deviation));
}

std::string summary(const Attribution& a, std::int64_t batches, const std::string& policy) {
  std::string text = fmt::format(
      "step {}, {}: loss {:.6f} ({}) - {:.6f} (fp64, from the same weights) = {}\n", a.step,
      batches > 1 ? fmt::format("mean of {} micro-batches", batches)
                  : fmt::format("micro-batch {}", a.micro_batch),
      a.loss, policy, a.loss_exact, signed_number(a.measured()));
  text += fmt::format(
      "  predicted {}; unattributed {}, {} of {}, the root of the sum of squares; second order "
      "{}\n",
      signed_number(a.predicted), signed_number(a.unattributed()),
      percent(over(std::abs(a.unattributed()), a.root_of_squares)), size_number(a.root_of_squares),
      percent(over(std::abs(a.predicted_exact - a.predicted), a.root_of_squares)));
  if (a.replay)
    text +=
        fmt::format("  replay: no class is further off than {} of it; rank correlation {:.4f}\n",
                    percent(a.replay->largest_gap), a.replay->rank_correlation);
  if (a.replay && a.replay->gradient) {
    const GradientDeviation& g = *a.replay->gradient;
    text +=
        fmt::format("  gradient: deviates by {}, predicted {}, unattributed {}; {}\n",
                    percent(g.measured), percent(g.predicted), percent(g.unattributed), within(g));
  }
  if (a.nonfinite > 0)
    text += fmt::format("  gradient: {} elements are not finite, so that it is not attributed\n",
                        a.nonfinite);
  if (a.changed > 0)
    text += fmt::format(
        "  {} elements were not read as they were written, first by {}: no contribution has them\n",
        a.changed, a.first_changed);
  return text;
}

std::vector<std::int64_t> steps_of(const AttributedRun& run) {
  std::vector<std::int64_t> steps;
  for (const Attribution& a : run.parts)
    if (steps.empty() || steps.back() != a.step) steps.push_back(a.step);
  return steps;
}

std::int64_t batches_of(const AttributedRun& run, std::int64_t step) {
  return std::count_if(run.parts.begin(), run.parts.end(),
                       [&](const Attribution& a) { return a.step == step; });
}

std::string swaps_of(const AttributedRun& run, const Terminal& terminal) {
  if (run.swaps.empty()) return {};
  Table table({{.title = "swap"},
               {.title = "step", .number = true},
               {.title = "micro-batch", .number = true},
               {.title = "loss changes by", .number = true},
               {.title = "gradient by", .number = true}});
  for (const SwapResult& s : run.swaps)
    table.add_row({{printable(s.swap.part + "=" + s.swap.how, terminal.unicode)},
                   {std::to_string(s.step)},
                   {std::to_string(s.micro_batch)},
                   {signed_number(s.change)},
                   {percent(s.gradient_change)}});
  return table.terminal(terminal) +
         "a swap draws the rounding behind it anew: swaps do not add up, contributions do\n\n";
}

}  // namespace

std::string attribution_table(const train::TrainingSpec& spec, const AttributedRun& run,
                              const Terminal& terminal) {
  std::string text;
  for (const std::int64_t step : steps_of(run)) {
    const Attribution a = mean_of_step(run.parts, step);
    text += summary(a, batches_of(run, step), printable(spec.policy.name, terminal.unicode)) + "\n";
    text += table_by("by op", a, terminal, [](const CallClass& c) { return c.part; });
    text += table_by("by layer", a, terminal,
                     [](const CallClass& c) { return name_of_layer(c.layer); });
    text += table_by("by pass", a, terminal, [](const CallClass& c) {
      return std::string(pass_names[static_cast<std::size_t>(c.pass)]);
    });
    text += table_by("by precision", a, terminal, [](const CallClass& c) { return c.precision; });
    text += largest_classes(a, terminal);
    const auto mean = std::find_if(run.gradients.begin(), run.gradients.end(),
                                   [&](const StepGradient& g) { return g.step == step; });
    if (mean != run.gradients.end())
      text += step_gradient(*mean) +
              parameters_of_step(mean->deviation, "gradient of the step", terminal);
    else if (a.replay && a.replay->gradient)
      text += parameters_of_step(*a.replay->gradient, "gradient", terminal);
  }
  return text + swaps_of(run, terminal) + attribution_last_lines(run);
}

std::string attribution_last_lines(const AttributedRun& run) {
  std::string text;
  for (const std::int64_t step : steps_of(run)) {
    const Attribution a = mean_of_step(run.parts, step);
    text += fmt::format("step {}: loss {}, predicted {}, unattributed {} of the root of squares",
                        step, signed_number(a.measured()), signed_number(a.predicted),
                        percent(over(std::abs(a.unattributed()), a.root_of_squares)));
    if (a.replay)
      text += fmt::format(", replay within {}, rank correlation {:.4f}",
                          percent(a.replay->largest_gap), a.replay->rank_correlation);
    text += "\n";
  }
  return text;
}

}  // namespace opbound::trace
