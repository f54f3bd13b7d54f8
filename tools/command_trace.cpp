// opbound trace: what a trace holds, and what two of them differ in.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <cmath>
#include <map>
#include <memory>
#include <optional>

#include "distributed/trace/band.hpp"
#include "reports/error.hpp"
#include "reports/table.hpp"
#include "reports/text.hpp"
#include "tools/command_line.hpp"
#include "tools/commands.hpp"

namespace opbound {
namespace {

using namespace trace;  // the command is of that alone

constexpr std::array<std::string_view, 3> phase_words{"model", "norm", "update"};

std::string place_of(const TraceCall& c) {
  return fmt::format("{}{}, {} {}", c.layer < 0 ? "" : fmt::format("layer {}, ", c.layer), c.part,
                     c.op == c.part ? "" : c.op + ",", c.direction);
}

// ---- show

/// Steps that a table of a few lines shows: the first, the last, and powers of two between.
bool is_shown(std::int64_t step, std::int64_t last) {
  return step == last || (step & (step - 1)) == 0;
}

int show(const std::string& path) {
  TraceFile file(path, TraceFile::Open::read);
  const TraceHead head = file.head();
  std::int64_t elements = 0;
  const std::vector<TraceParameter> parameters = file.parameters();
  for (const TraceParameter& p : parameters) {
    std::int64_t n = 1;
    for (const std::int64_t d : p.shape) n *= d;
    elements += n;
  }
  const std::int64_t last = file.last_step();
  print(fmt::format("{}: {}, {} on {}, {} parameters of {} elements, {} steps\n\n", path,
                    head.source, fmt::format("{} rank{}", head.ranks, head.ranks == 1 ? "" : "s"),
                    head.device, parameters.size(), elements, last + 1));
  Table table({{"step", true},
               {"loss", true},
               {"gradient norm", true},
               {"loss scale", true},
               {"lr", true},
               {"not finite", true},
               {""}});
  file.for_each_step([&](const TraceStep& s) {
    if (!is_shown(s.step, last)) return true;
    std::int64_t nonfinite = 0;
    for (const GradientSums& g : s.gradients) nonfinite += g.nonfinite;
    table.add_row({{std::to_string(s.step)},
                   {fmt::format("{:.6g}", s.loss)},
                   {fmt::format("{:.6g}", s.gradient_norm)},
                   {fmt::format("{:.6g}", s.loss_scale)},
                   {fmt::format("{:.3g}", s.lr)},
                   {std::to_string(nonfinite)},
                   {s.is_skipped ? "skipped" : ""}});
    return true;
  });
  print(table.terminal(Terminal::of(1)));
  const std::vector<TraceEvent> events = file.events();
  if (!events.empty()) print("\n");
  for (const TraceEvent& e : events)
    print(fmt::format("step {}: {}: {}: {}\n", e.step, e.check, e.place, e.text));
  return exit_clean;
}

// ---- diff

struct DiffOptions {
  std::string a, b, table;
  std::vector<std::string> twins;
  double alpha = 1e-3;
};

/// What exceeds a limit first.
struct Alarm {
  std::int64_t step = 0;
  std::string what;
};

/// One layer's parameters together at one step.
struct LayerDistance {
  double square = 0, worst_ratio = 0;
};

class Diff {
 public:
  explicit Diff(const DiffOptions& o)
      : options_(o),
        a_(o.a, TraceFile::Open::read),
        b_(o.b, TraceFile::Open::read),
        heads_{a_.head(), b_.head()},
        lengths_{a_.last_step() + 1, b_.last_step() + 1},
        parameters_(a_.parameters()) {
    if (!o.twins.empty()) band_.emplace(a_, o.twins, o.alpha);
    if (!band_ && must_agree_in_bits(heads_[0], heads_[1])) must_agree_ = true;
  }

  int run() {
    for_each_distance(a_, b_, [&](const StepDistance& d) {
      take(d);
      return true;
    });
    if (steps_ == 0)
      throw InputError(options_.b, "no step that " + options_.a + " has", "such a one");
    find_call();
    print_heads();
    print_table();
    print_firsts();
    print_call();
    print("verdict: " + verdict() + "\n");
    return alarm_ ? exit_found : exit_clean;
  }

 private:
  void take(const StepDistance& d) {
    if (++steps_ == 1) first_step_ = d.step;
    last_ = d;
    if (band_ && !parted_ && !band_->has_parted(d) && band_->is_idle(d.step)) ++idle_;
    const auto first = [&](std::optional<std::int64_t>& step, bool differs) {
      if (differs && !step) step = d.step;
    };
    first(samples_, !d.has_same_samples);
    first(randomness_, !d.has_same_randomness);
    first(loss_, !d.has_same_loss);
    first(rate_, !d.has_same_rate);
    first(article_, d.cosine < 0.9999);
    if (d.kl_nats) prompts_ = d;
    if (!bits_ && !d.has_same_bits()) {
      bits_ = d.step;
      for (std::size_t p = 0; p < d.differs.size(); ++p)
        if (d.differs[p] != 0) differing_.push_back(p);
    }
    if (band_ && band_->has_parted(d))
      first(parted_, true);
    else if (band_ || must_agree_)
      judge(d);
    if ((d.step & (d.step - 1)) == 0) shown_.push_back(d);
  }

  /// Gradients, the loss and the prompts, as `train --against` does.
  void judge(const StepDistance& d) {
    std::string what;
    const auto excess = [&](const std::string& of, double by, double limit) {
      if (!(by <= limit) && what.empty())
        what = fmt::format("{} by {:.3g}, limit {:.3g}", of, by, limit);
    };
    if (const std::optional<Excess> e = excess_of(d, band_ ? &*band_ : nullptr))
      what = fmt::format("{} by {:.3g}, limit {:.3g}", parameters_[e->parameter].name, e->distance,
                         e->limit);
    excess("the loss", d.loss, band_ ? band_->loss_limit(d.step) : 0);
    if (d.kl_nats)
      excess("KL divergence after the prompts", *d.kl_nats, band_ ? band_->kl_limit(d.step) : 0);
    if (what.empty()) return;
    ++exceeding_;
    if (!alarm_) alarm_ = Alarm{d.step, what};
  }

  void print_heads() {
    print(fmt::format("A: {}\nB: {}\n", options_.a, options_.b));
    const std::vector<std::string> words = differences(heads_[0], heads_[1]);
    const bool has_specs = !heads_[0].spec.empty() && !heads_[1].spec.empty();
    if (words.empty())
      print(has_specs ? "same spec, device, ranks, providers and environment\n"
                      : "no difference is recorded; the runs' settings are not\n");
    else
      print("differ in (A / B):\n");
    for (const std::string& word : words) print("  " + word + "\n");
    if (!has_same_length())
      print(fmt::format("{}: {} steps are in both and compared\n", lengths(), steps_));
  }

  bool has_same_length() const { return lengths_[0] == lengths_[1]; }
  std::string lengths() const {
    return fmt::format("A has {} steps, B {}", lengths_[0], lengths_[1]);
  }

  /// By layer: the root of the mean square distance of its parameters, and the worst of the limit.
  void print_table() {
    if (shown_.back().step != last_.step) shown_.push_back(last_);
    print("\nrelative distance of the gradients, root mean square over a layer's parameters" +
          std::string(band_ ? ", and the largest share of its limit\n" : "\n"));
    std::map<int, std::size_t> layers;
    for (const TraceParameter& p : parameters_) ++layers[p.layer];
    std::vector<Column> columns{{"step", true}};
    for (const auto& [layer, count] : layers) {
      columns.push_back({layer < 0 ? "no layer" : fmt::format("layer {}", layer), true});
      if (band_) columns.push_back({"of limit", true});
    }
    columns.push_back({"1 - cosine", true});
    Table table(std::move(columns));
    for (const StepDistance& d : shown_) table.add_row(cells_of(d, layers));
    print(table.terminal(Terminal::of(1)));
  }

  std::vector<Cell> cells_of(const StepDistance& d, const std::map<int, std::size_t>& layers) {
    std::map<int, LayerDistance> by_layer;
    for (std::size_t p = 0; p < parameters_.size(); ++p) {
      LayerDistance& l = by_layer[parameters_[p].layer];
      l.square += d.parameters[p] * d.parameters[p];
      if (band_) l.worst_ratio = std::max(l.worst_ratio, d.parameters[p] / band_->limit(d.step, p));
    }
    std::vector<Cell> cells{{std::to_string(d.step)}};
    for (const auto& [layer, count] : layers) {
      const LayerDistance& l = by_layer[layer];
      cells.push_back({fmt::format("{:.2e}", std::sqrt(l.square / static_cast<double>(count)))});
      if (band_) cells.push_back({fmt::format("{:.2g}", l.worst_ratio)});
    }
    cells.push_back({fmt::format("{:.2e}", 1 - d.cosine)});
    return cells;
  }

  void print_firsts() const {
    const auto line = [&](const char* what, const std::optional<std::int64_t>& step) {
      print(fmt::format("{:<22}{}\n", what,
                        step ? fmt::format("differ from step {} on", *step) : "the same"));
    };
    print("\n");
    line("texts of the steps", samples_);
    line("random numbers", randomness_);
    line("bits of gradients", bits_);
    line("losses", loss_);
    line("learning rates", rate_);
    if (bits_) {
      std::string names;
      for (std::size_t i = 0; i < std::min<std::size_t>(differing_.size(), 3); ++i)
        names += (i == 0 ? "" : ", ") + parameters_[differing_[i]].name;
      print(fmt::format("  at step {} in {} of {} parameters: {}{}\n", *bits_, differing_.size(),
                        parameters_.size(), names, differing_.size() > 3 ? ", ..." : ""));
    }
    if (prompts_)
      print(fmt::format(
          "after step {} the tokens after the prompts have a mean KL divergence of {:.3g} "
          "nats, the same most likely one in {:.0f}%{}\n",
          prompts_->step, *prompts_->kl_nats, 100 * *prompts_->top1_share,
          band_ ? fmt::format(", limit {:.3g}", band_->kl_limit(prompts_->step)) : ""));
    print_alarm();
  }

  void print_alarm() const {
    if (band_)
      print(fmt::format(
          "limits: {} twins, false alarm with probability {:g} over all {} steps; "
          "their distances {:.2g} at first, worth {:.1f} twins, {:.2g} and {:.1f} at "
          "last\n",
          options_.twins.size(), options_.alpha, steps_, band_->spread(first_step_),
          band_->freedom(first_step_), band_->spread(last_.step), band_->freedom(last_.step)));
    else
      print(must_agree_
                ? "limits: both runs compute the same, so every bit has to agree\n"
                : "limits: this pair has none without --twins: it may differ by rounding\n");
    if (alarm_)
      print(fmt::format("ALARM at step {}, {} of {} steps: {}\n", alarm_->step, exceeding_, steps_,
                        alarm_->what));
    else if (band_ || must_agree_)
      print(parted_ ? fmt::format("no alarm before step {}\n", *parted_) : "no alarm\n");
    if (parted_)
      print(
          fmt::format("from step {} on there is no limit: one run alone skipped its update, as a "
                      "dynamic loss scale may\n",
                      *parted_));
    if (idle_ > 0)
      print(
          fmt::format("at {} of {} steps no distance can reach its limit: more twins, or longer "
                      "ones, would say more\n",
                      idle_, steps_));
    print(fmt::format("the rule `cosine below 0.9999`: {}\n",
                      article_ ? fmt::format("alarm at step {}", *article_) : "no alarm"));
  }

  /// Of the first step with other bits or losses; a fault is an alarm of its own.
  void find_call() {
    if (!bits_ && !loss_) return;
    differs_at_ = std::min(bits_.value_or(last_.step), loss_.value_or(last_.step));
    has_call_bits_ = !a_.bits(*differs_at_).empty() && !b_.bits(*differs_at_).empty();
    if (!has_call_bits_) return;
    call_ = first_differing_call(a_, b_, *differs_at_);
    if (!call_) return;
    cause_ = cause_of(*call_, heads_[0], heads_[1]);
    if (cause_ != Cause::fault) return;
    if (!alarm_) alarm_ = Alarm{*differs_at_, "a call gave other bits from the same ones"};
    exceeding_ = std::max<std::int64_t>(exceeding_, 1);
  }

  void print_call() const {
    if (!differs_at_) return;
    if (!has_call_bits_) {
      const bool is_own = !heads_[0].spec.empty() && !heads_[1].spec.empty();
      print(is_own ? fmt::format("which call differs first: both runs again with --trace-bits {} "
                                 "say it\n",
                                 *differs_at_)
                   : fmt::format("which call differs first: an audit of step {} in both says it\n",
                                 *differs_at_));
      return;
    }
    if (!call_) {
      print(fmt::format(
          "at step {} no call gives other bits from the same ones: what the first calls read "
          "differs already, weights as they are rounded or moved, texts or random numbers\n",
          *differs_at_));
      return;
    }
    const CallBits& bits = call_->bits;
    print(fmt::format("first call with the same inputs and other outputs: step {}, {}{}, {}\n",
                      *differs_at_,
                      bits.micro_batch < 0 ? "" : fmt::format("micro-batch {}, ", bits.micro_batch),
                      phase_words.at(static_cast<std::size_t>(bits.phase)), place_of(call_->a)));
    print(fmt::format("  A: {} {} {}\n  B: {} {} {}\n  {}\n", call_->a.precision, call_->a.variant,
                      call_->a.provider, call_->b.precision, call_->b.variant, call_->b.provider,
                      cause_words[static_cast<std::size_t>(cause_)]));
  }

  /// Where nothing sets a limit, only runs that agree in every bit are known to be right.
  std::string verdict() const {
    if (alarm_) return "exceeds";
    if (!bits_ && !loss_)
      return fmt::format("within, every bit of {} steps agrees{}", steps_,
                         has_same_length() ? "" : "; " + lengths());
    if (band_ && idle_ == steps_)
      return "within by losses alone: no gradient's distance can reach its limit";
    if (band_) return "within";
    return "undecided, the runs differ and nothing says how far rounding would carry them; twins "
           "would";
  }

  const DiffOptions& options_;
  TraceFile a_, b_;
  std::array<TraceHead, 2> heads_;
  std::array<std::int64_t, 2> lengths_;  ///< steps
  std::vector<TraceParameter> parameters_;
  std::optional<Band> band_;
  bool must_agree_ = false;
  std::vector<StepDistance> shown_;
  StepDistance last_;
  std::int64_t steps_ = 0, first_step_ = 0, exceeding_ = 0, idle_ = 0;
  std::optional<std::int64_t> samples_, randomness_, loss_, rate_, bits_, article_, parted_;
  std::vector<std::size_t> differing_;
  std::optional<StepDistance> prompts_;  ///< the last one that has them
  std::optional<Alarm> alarm_;
  std::optional<std::int64_t> differs_at_;  ///< the step whose calls are compared
  bool has_call_bits_ = false;              ///< both traces have its calls' bits
  std::optional<FirstCall> call_;
  Cause cause_{};
};

}  // namespace

void add_trace(CLI::App& program, Action& chosen) {
  CLI::App* command = program.add_subcommand("trace", "Look into traces of training runs");
  command->require_subcommand(1);
  CLI::App* shown = command->add_subcommand("show", "What a trace holds");
  const auto path = std::make_shared<std::string>();
  shown->add_option("file", *path, "Written by `opbound train --trace`")
      ->type_name("FILE.trace")
      ->required();
  shown->callback([path, &chosen] { chosen = [path] { return show(*path); }; });
  CLI::App* diff = command->add_subcommand(
      "diff", "Compare two runs: where their gradients part, and whether rounding explains it");
  const auto o = std::make_shared<DiffOptions>();
  diff->add_option("a", o->a, "The reference")->type_name("A.trace")->required();
  diff->add_option("b", o->b, "The run that is compared with it")->type_name("B.trace")->required();
  CLI::Option* twins =
      diff->add_option("--twins", o->twins,
                       "Twins of A (`opbound train --twin SEED`), at least 2: they show how far "
                       "rounding alone carries a run")
          ->type_name("FILE.trace");
  diff->add_option("--alpha", o->alpha, "Probability of a false alarm over all steps")
      ->type_name("SHARE")
      ->check(between(1e-9, 0.5))
      ->capture_default_str()
      ->needs(twins);
  diff->callback([o, &chosen] { chosen = [o] { return Diff(*o).run(); }; });
}

}  // namespace opbound
