#include "tests/detection/alarms.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <tuple>

#include "tests/detection/planted.hpp"

namespace opbound::detection {
namespace {

using Key = std::tuple<std::string, std::string, std::string>;
using Counts = std::map<Key, AlarmCount>;

double parameter(const InputSpec& input, std::string_view name, double otherwise) {
  for (const auto& [given, value] : input.parameters)
    if (given == name) return value;
  return otherwise;
}

/// As the cited tests draw: torch.randn and torch.rand, or uniform on [-2, 1] (TransformerEngine);
/// integers and masks however they are.
bool is_ordinary(const InputSpec& input) {
  if (input.kind == "normal") {
    const double mean = std::fabs(parameter(input, "mean", 0)),
                 sigma = parameter(input, "sigma", 1);
    return mean <= 1 && sigma <= 1 && mean <= 10 * sigma;  // weights around 1 are ordinary too
  }
  if (input.kind == "uniform")
    return parameter(input, "low", -1) >= -2 && parameter(input, "high", 1) <= 2;
  return input.kind == "index" || input.kind == "zipf" || input.kind == "counting" ||
         input.kind == "mask" || input.kind == "same_index";
}

bool is_fixed(const InputSpec& input) {
  static constexpr std::string_view fixed[] = {
      "increasing", "constant",       "every_pattern", "finite_patterns", "special",
      "counting",   "finite_special", "same_index",    "worst",           "file"};
  return std::ranges::find(fixed, input.kind) != std::end(fixed);
}

bool is_format(const AttributeValue& value) {
  const auto* word = std::get_if<std::string>(&value);
  return word != nullptr && precision_named(*word).has_value();
}

/// Does an attribute name a format for an intermediate value that the op would not round by itself?
/// Such a kernel is right where that is declared, and of less precision than its tensors tell.
bool narrows_inside(const CaseSpec& spec) {
  return std::ranges::any_of(spec.op->attributes, [&](const AttributeSpec& a) {
    const AttributeValue value = a.get(spec.attributes);
    return is_format(value) && value != a.get(spec.op->default_attributes);
  });
}

void add(Counts& to, const CaseSpec& spec, std::string_view rule, bool is_refused,
         std::uint64_t elements, std::uint64_t flagged) {
  const std::string op(spec.op->name), inputs(class_of(spec));
  AlarmCount& a = to[{op, inputs, std::string(rule)}];
  a.op = op;
  a.inputs = inputs;
  a.rule = rule;
  ++a.cases;
  a.flagged_cases += is_refused ? 1 : 0;
  a.elements += elements;
  a.flagged_elements += flagged;
}

/// One case, judged by everybody; gives its elements.
std::uint64_t take(const CaseSpec& spec, const Provider& provider, Counts& counts) {
  const Observation seen = observe(spec, provider, prepare(spec));
  const bool is_refused = seen.verdict == Verdict::failed || seen.verdict == Verdict::exceeds ||
                          seen.verdict == Verdict::undecided;
  add(counts, spec, own_rule, is_refused, seen.counts.checked,
      seen.counts.exceeds + seen.counts.undecided);
  for (const Rival& rival : rivals()) {
    const WholeAnswer answer = answer_of(rival, seen);
    if (answer.applies())
      add(counts, spec, rival.name, !answer.accepts, answer.elements, answer.flagged);
  }
  return seen.counts.checked;
}

void merge(Counts& to, const Counts& from) {
  for (const auto& [key, a] : from) {
    AlarmCount& sum = to[key];
    const AlarmCount before = sum;
    sum = a;
    sum.cases += before.cases;
    sum.flagged_cases += before.flagged_cases;
    sum.elements += before.elements;
    sum.flagged_elements += before.flagged_elements;
  }
}

/// Cases on several threads; sums of counts, so no order matters.
class Round {
 public:
  Round(std::span<const CaseSpec> cases, std::uint64_t round, const AlarmOptions& options)
      : cases_(cases), round_(round), options_(options) {}

  /// Gives the elements checked.
  std::uint64_t run(Alarms& alarms, Counts& counts) {
    std::vector<std::thread> others;
    for (std::int64_t t = 1; t < options_.workers; ++t)
      others.emplace_back([this, &counts] { work(counts); });
    work(counts);
    for (std::thread& thread : others) thread.join();
    if (error_) std::rethrow_exception(error_);
    alarms.is_whole = alarms.is_whole && !is_over_;
    return elements_;
  }

 private:
  void work(Counts& all) {
    Counts own;
    try {
      for (std::size_t i; !is_over_ && (i = next_++) < cases_.size();) {
        if (!options_.goes_on()) {
          is_over_ = true;
          break;
        }
        if (round_ > 0 && !depends_on_seed(cases_[i])) continue;
        CaseSpec spec = cases_[i];
        spec.seed += round_ << 32;
        const std::uint64_t elements = take(spec, *provider_, own);
        const std::lock_guard lock(mutex_);
        elements_ += elements;
        options_.ended(spec.op->name, elements);
      }
    } catch (...) {
      is_over_ = true;
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    merge(all, own);
  }

  std::span<const CaseSpec> cases_;
  std::uint64_t round_;
  const AlarmOptions& options_;
  std::shared_ptr<const Provider> provider_ =
      options_.provider ? options_.provider : std::shared_ptr<const Provider>(own_host_provider());
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> is_over_{false};
  std::mutex mutex_;  ///< of what follows
  std::uint64_t elements_ = 0;
  std::exception_ptr error_;
};

}  // namespace

std::string_view class_of(const CaseSpec& spec) {
  if (spec.variant != spec.op->default_variant(spec.attributes) || narrows_inside(spec))
    return input_classes[2];
  const Format& compute = spec.precision.compute;  // in 16 bits errors are another matter
  const auto sizes = std::span(spec.sizes).first(spec.op->dims.size());
  const bool is_usual =
      (compute == fp32 || compute == fp64) && std::ranges::find(sizes, 0) == sizes.end() &&
      std::ranges::all_of(spec.inputs, [](const auto& input) { return is_ordinary(input.second); });
  return input_classes[is_usual ? 0 : 1];
}

bool depends_on_seed(const CaseSpec& spec) {
  return spec.inputs.empty() || std::ranges::any_of(spec.inputs, [](const auto& input) {
           return !is_fixed(input.second);
         });
}

Alarms alarms_of(std::span<const CaseSpec> cases, const AlarmOptions& options) {
  Alarms alarms;
  Counts counts;
  do {
    const std::uint64_t checked = Round(cases, alarms.rounds, options).run(alarms, counts);
    alarms.elements += checked;
    ++alarms.rounds;
    if (checked == 0) break;  // no case is left that another seed changes
  } while (alarms.is_whole && alarms.elements < options.elements);
  for (auto& [key, count] : counts) alarms.counts.push_back(std::move(count));
  return alarms;
}

}  // namespace opbound::detection
