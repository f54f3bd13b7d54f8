#include "suites/worst.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "ops/philox.hpp"
#include "reference/certify.hpp"
#include "suites/input.hpp"
#include "suites/run.hpp"

namespace opbound {
namespace {

/// A stream of random numbers: Philox by a counter.
class Dice {
 public:
  Dice(std::uint64_t seed, std::uint64_t stream) : seed_(seed), stream_(stream) {}
  /// Uniform below n.
  std::uint64_t below(std::uint64_t n) { return philox_word(seed_, stream_, next_++) % n; }

 private:
  std::uint64_t seed_, stream_, next_ = 0;
};

/// Generators of every kind of number that a random restart draws from.
InputSpec some_generator(Dice& dice, const Format& format) {
  constexpr std::array<std::string_view, 8> fixed{"normal",
                                                  "uniform",
                                                  "cancellation",
                                                  "ties",
                                                  "one_hot",
                                                  "normal(sigma=30)",
                                                  "normal(mean=1, sigma=1e-3)",
                                                  "increasing(start=-4, step=0.25)"};
  const std::uint64_t which = dice.below(fixed.size() + 4);
  if (which < fixed.size()) return parse_input(fixed[which]);
  const int reach = std::min(12, -format.exponent_min / 2);
  const int low = -static_cast<int>(dice.below(static_cast<std::uint64_t>(reach)));
  const int high = static_cast<int>(dice.below(static_cast<std::uint64_t>(reach)));
  InputSpec spec;
  spec.kind = "log_spaced";
  spec.parameters = {{"low", low}, {"high", high}};
  return spec;
}

bool is_searched(const Tensor& t) { return is_float(t.element()) && t.count() > 0; }

/// Only what somebody else writes: neither outputs nor what the forward pass saves.
Tensors inputs_of(const CaseSpec& spec) {
  Prepared prepared = prepare(spec);
  Tensors inputs;
  for (const auto& [name, input] : spec.inputs)
    if (const auto found = prepared.tensors.find(name); found != prepared.tensors.end())
      inputs.emplace(name, found->second);
  return inputs;
}

/// Another value for an element, which the format holds.
double changed(Dice& dice, const Format& f, double x, double other) {
  const double step = ulp(f, x);
  switch (dice.below(8)) {
    case 0:
      return x + step;
    case 1:
      return x - step;
    case 2:
      return x + step * static_cast<double>(dice.below(64));
    case 3:
      return -x;
    case 4:
      return 2 * x;
    case 5:
      return x / 2;
    case 6:
      return other;
    default:
      return x * (1 + static_cast<double>(dice.below(1U << 20)) * 0x1p-20);
  }
}

/// Tensors of which the suite draws no negative number, as a norm or a second moment is none.
std::set<std::string, std::less<>> without_sign(const Tensors& inputs) {
  std::set<std::string, std::less<>> names;
  for (const auto& [name, t] : inputs) {
    const std::vector<double> values = t.values();
    if (is_searched(t) && std::ranges::all_of(values, [](double x) { return x >= 0; }))
      names.insert(name);
  }
  return names;
}

void drop_signs(Tensors& inputs, const std::set<std::string, std::less<>>& names) {
  for (const std::string& name : names) {
    Tensor& t = inputs.find(name)->second;
    for (std::int64_t i = 0; i < t.count(); ++i) t.set(i, std::fabs(t.at(i)));
  }
}

/// One element, or a few, of the searched tensors changed in place.
void mutate(Dice& dice, Tensors& inputs) {
  std::vector<Tensor*> searched;
  for (auto& [name, t] : inputs)
    if (is_searched(t)) searched.push_back(&t);
  const std::uint64_t times = 1 + dice.below(3);
  for (std::uint64_t k = 0; k < times; ++k) {
    Tensor& t = *searched[dice.below(searched.size())];
    const auto count = static_cast<std::uint64_t>(t.count());
    const auto i = static_cast<std::int64_t>(dice.below(count));
    const double x = t.at(i), other = t.at(static_cast<std::int64_t>(dice.below(count)));
    if (!std::isfinite(x) || !std::isfinite(other)) continue;
    const Format f = format_of(t.element());
    const double now = round_to(f, changed(dice, f, x, other));
    if (std::isfinite(now)) t.set(i, now);
  }
}

}  // namespace

WorstRatio worst_ratio_of(const CaseSpec& spec, const Tensors& inputs) {
  Prepared prepared = prepare(spec, inputs);
  const auto own = own_host_provider();
  own->run(*spec.op, prepared.call);
  const auto tensors = spec.op->pass(spec.direction).tensors;
  const BoundArrays bounds =
      bounds_of(*spec.op, prepared.call, own->contract(*spec.op, spec.declared));
  WorstRatio worst;
  for (const FirstRung& o : settled(*spec.op, prepared.call, bounds)) {
    const WorstRatio own_ratio{o.tally.worst_ratio,
                               std::string(tensors[static_cast<std::size_t>(o.tensor)].name),
                               o.tally.exceeds > 0};
    if (worst < own_ratio || worst.output.empty()) worst = own_ratio;
  }
  return worst;
}

WorstCase search_worst(const CaseSpec& spec, std::uint64_t seed, std::uint64_t evaluations) {
  WorstCase best{spec, inputs_of(spec)};
  best.found = worst_ratio_of(spec, best.inputs);
  best.before = best.found.ratio;
  const bool has_any =
      std::ranges::any_of(best.inputs, [](const auto& input) { return is_searched(input.second); });
  Dice dice(seed, 0);
  const auto unsigned_ones = without_sign(best.inputs);
  const auto keep = [&](Tensors inputs) {
    drop_signs(inputs, unsigned_ones);
    WorstRatio found = worst_ratio_of(spec, inputs);
    ++best.evaluations;
    if (found < best.found) return;
    best.found = std::move(found);
    best.inputs = std::move(inputs);
  };
  for (std::uint64_t k = 0; has_any && k < evaluations && !best.found.exceeds; ++k) {
    if (k < evaluations / 4) {  // restarts
      CaseSpec drawn = spec;
      drawn.seed = (seed << 32) + k + 1;
      for (auto& [name, input] : drawn.inputs)
        if (const auto t = best.inputs.find(name); t != best.inputs.end() && is_searched(t->second))
          input = some_generator(dice, format_of(t->second.element()));
      keep(inputs_of(drawn));
    } else {
      Tensors inputs = best.inputs;
      mutate(dice, inputs);
      keep(std::move(inputs));
    }
  }
  return best;
}

std::vector<CaseSpec> cases_worth_a_search(const Suite& suite) {
  constexpr std::array<std::string_view, 3> precisions{"fp32", "fp64", "bf16:fp32:bf16"};
  constexpr std::int64_t fewest = 32, most = 1200;  // enough to add, little enough to keep
  struct Candidate {
    std::int64_t ones = 0, elements = 0;  ///< a size of 1 leaves an op little to do
    const CaseSpec* spec = nullptr;
  };
  std::vector<Candidate> candidates;
  for (const CaseSpec& spec : suite.cases) {
    const bool is_usual =
        std::ranges::find(precisions, name_of(spec.precision)) != precisions.end() &&
        spec.attributes.bytes == spec.op->default_attributes.bytes &&
        spec.declared == std::vector{spec.variant} && spec.tier == Tier::quick;
    if (!is_usual) continue;
    Candidate c{std::ranges::count(std::span(spec.sizes).first(spec.op->dims.size()), 1), 0, &spec};
    for (const auto& [name, tensor] : inputs_of(spec)) c.elements += tensor.count();
    if (c.elements >= fewest && c.elements <= most) candidates.push_back(c);
  }
  std::ranges::stable_sort(candidates, {},
                           [](const Candidate& c) { return std::pair(c.ones, c.elements); });
  std::set<std::tuple<Direction, std::string, int>> seen;
  std::vector<CaseSpec> chosen;
  for (const Candidate& c : candidates)
    if (seen.emplace(c.spec->direction, name_of(c.spec->precision), c.spec->variant).second)
      chosen.push_back(*c.spec);
  return chosen;
}

}  // namespace opbound
