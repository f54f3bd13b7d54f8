#include "distributed/claims/verdict.hpp"

#include <algorithm>
#include <cmath>

#include "reports/error.hpp"
#include "reports/text.hpp"

namespace opbound::claims {
namespace {

Outcome of(bool always, bool never) {
  return always ? Outcome::holds : never ? Outcome::fails : Outcome::open;
}

const Figure& figure_named(std::span<const Figure> figures, const std::string& name,
                           const std::string& place) {
  for (const Figure& f : figures)
    if (f.name == name) return f;
  std::string known;
  for (const Figure& f : figures) known.append(known.empty() ? "" : ", ").append(f.name);
  throw InputError(place, "no figure '" + name + "'", "one of " + known);
}

Figure operand_of(const Test& test, std::span<const Figure> figures, const std::string& place) {
  if (!looks_like_number(test.operand)) return figure_named(figures, test.operand, place);
  const Printed number = printed_number(test.operand);
  if (test.comparison == Comparison::equals)
    return {test.operand, number.value, number.low, number.high, {}, {}};
  return {test.operand, number.value, number.value, number.value, {}, {}};
}

std::string joined(const std::vector<std::string>& all) {
  std::string text;
  for (const std::string& one : all) text.append(text.empty() ? "" : "; or ").append(one);
  return text;
}

}  // namespace

Outcome outcome_of(const Figure& figure, Comparison comparison, const Figure& other) {
  if (std::isnan(figure.value) || std::isnan(other.value))
    return comparison == Comparison::is_not ? Outcome::holds : Outcome::fails;
  const bool above = figure.low > other.high, below = figure.high < other.low;
  const bool apart = above || below;
  switch (comparison) {
    case Comparison::equals:
      return of(other.low <= figure.low && figure.high <= other.high, apart);
    case Comparison::is:
    case Comparison::is_not: {
      const bool same =
          figure.low == figure.high && other.low == other.high && figure.value == other.value;
      return comparison == Comparison::is ? of(same, apart) : of(apart, same);
    }
    case Comparison::above:
      return of(above, figure.high <= other.low);
    case Comparison::below:
      return of(below, figure.low >= other.high);
    case Comparison::at_least:
      return of(figure.low >= other.high, below);
    default:
      return of(figure.high <= other.low, above);
  }
}

Judged judge(const Claim& claim, std::span<const Figure> figures, const std::string& absence) {
  Judged judged;
  if (!absence.empty()) {
    judged.because = absence;
    return judged;
  }
  std::vector<std::string> holding, contradicting;
  std::string open;
  for (const Test& test : claim.tests) {
    const Figure& figure = figure_named(figures, test.figure, claim.place);
    const Outcome outcome =
        outcome_of(figure, test.comparison, operand_of(test, figures, claim.place));
    judged.outcomes.push_back(outcome);
    if (outcome == Outcome::open && open.empty())
      open = test.figure + " lies between " + legible(figure.low) + " and " + legible(figure.high) +
             ", which does not decide whether it " +
             std::string(comparison_names[static_cast<std::size_t>(test.comparison)]) + " " +
             test.operand;
    if (test.is_about_itself) {
      if (outcome == Outcome::fails) contradicting.push_back(test.condition);
    } else if (outcome == Outcome::holds) {
      holding.push_back(test.condition);
    }
  }
  const auto stated = static_cast<std::size_t>(std::count_if(
      claim.tests.begin(), claim.tests.end(), [](const Test& t) { return !t.is_about_itself; }));
  if (!contradicting.empty()) {
    judged.verdict = ClaimVerdict::contradicts_itself;
    judged.because = joined(contradicting);
  } else if (!open.empty()) {
    judged.because = open;
  } else if (holding.size() == stated) {
    judged.verdict = ClaimVerdict::confirmed;
  } else if (holding.empty()) {
    judged.verdict = ClaimVerdict::refuted;
  } else {
    judged.verdict = ClaimVerdict::holds_only_if;
    judged.because = joined(holding);
  }
  return judged;
}

}  // namespace opbound::claims
