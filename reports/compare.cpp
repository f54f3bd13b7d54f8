#include "reports/compare.hpp"

#include <algorithm>
#include <cmath>
#include <compare>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <unordered_map>

#include "reports/standing.hpp"

namespace opbound {
namespace {

// ---- one check

/// A number by which two outputs of one check may differ; larger is worse.
struct Statistic {
  const char* name;
  std::optional<double> (*of)(const Record& r);
};

std::optional<double> size_of(std::optional<double> x) {
  if (x && std::isnan(*x)) return std::numeric_limits<double>::infinity();
  return x ? std::optional(std::fabs(*x)) : x;
}

/// In the order in which they decide. What is wrong for certain comes first, then the largest
/// error, in which contracts are written; the ratio sees errors grow where the bound is small, bias
/// and mean see what no single element shows. `acceptable` is left out: it is the bound's, not the
/// output's; and so are p-values, which are random where nothing is wrong.
constexpr std::array<Statistic, 7> statistics{{
    {"NaN or inf",
     [](const Record& r) -> std::optional<double> {
       if (!r.nonfinite_mismatch) return std::nullopt;
       return static_cast<double>(*r.nonfinite_mismatch);
     }},
    {"elements that exceed",
     [](const Record& r) { return std::optional(static_cast<double>(r.counts.exceeds)); }},
    {"elements undecided",
     [](const Record& r) { return std::optional(static_cast<double>(r.counts.undecided)); }},
    {"max ulp", [](const Record& r) { return size_of(r.error_ulp_max); }},
    {"ratio", [](const Record& r) { return size_of(r.ratio); }},
    {"bias", [](const Record& r) { return size_of(r.bias_ulp); }},
    {"mean ulp", [](const Record& r) { return size_of(r.error_ulp_mean); }},
}};

struct Order {
  std::strong_ordering badness = std::strong_ordering::equal;  // of `a` against `b`
  const char* decided_by = "";
};

/// The statistics of two records with the same verdict; one that either lacks says nothing.
Order by_statistics(const Record& a, const Record& b) {
  if (a.kind == CheckKind::statistical) return {};
  for (const Statistic& s : statistics) {
    const std::optional<double> x = s.of(a), y = s.of(b);
    if (!x || !y || *x == *y) continue;
    return {*x > *y ? std::strong_ordering::greater : std::strong_ordering::less, s.name};
  }
  const auto &h = a.ulp_histogram.counts, &k = b.ulp_histogram.counts;
  if (h.empty() || k.empty()) return {};
  for (std::size_t i = std::max(h.size(), k.size()); i-- > 0;) {
    const std::uint64_t x = i < h.size() ? h[i] : 0, y = i < k.size() ? k[i] : 0;
    if (x != y) return {x <=> y, "ulp histogram"};
  }
  return {};
}

Order order_of(const Record& a, const Record& b) {
  if (standing(a) != standing(b)) return {standing(b) <=> standing(a), "verdict"};
  return by_statistics(a, b);
}

bool held(const Record& r) { return r.verdict == Verdict::within || is_allowed(r); }

bool have_same_bits(const Record& a, const Record& b) {
  return !a.output_hash.empty() && a.output_hash == b.output_hash;
}

/// The check as its worst records of both runs show it.
void classify(ComparedCheck& check) {
  const auto put_worst_first = [](std::vector<const Record*>& of) {
    // What was skipped says nothing beside what ran.
    if (std::ranges::any_of(of, [](const Record* r) { return r->verdict != Verdict::skipped; }))
      std::erase_if(of, [](const Record* r) { return r->verdict == Verdict::skipped; });
    const auto worst = std::ranges::max_element(of, [](const Record* a, const Record* b) {
      return order_of(*a, *b).badness == std::strong_ordering::less;
    });
    if (worst != of.end()) std::iter_swap(of.begin(), worst);
  };
  put_worst_first(check.before);
  put_worst_first(check.after);
  if (check.before.empty() || check.after.empty()) {
    check.change = check.before.empty() ? Change::only_in_new : Change::only_in_old;
    return;
  }
  const Record &before = *check.before.front(), &after = *check.after.front();
  check.change = change_between(before, after, check.decided_by);
  if (check.change == Change::same_bits && !check.has_same_bits())
    check.change = Change::same_error;  // of repeated calls some differ
}

// ---- which record belongs to which

/// What is left out of a check's identity, one after the other, to find its fellow.
enum Loosened : int { nothing, contract, input_paths, provider, device_kind, end_of_loosened };

/// All records of a run that say the same of what was checked.
using Group = std::vector<const Record*>;

/// `of_case`: what all checks of one case have in common.
std::string identity(const Record& r, int loosened, bool of_case = false) {
  std::string key;
  const auto add = [&](std::string_view text) { key.append(text).append(1, '\x1f'); };
  for (const std::string* text : {&r.op, &r.direction, &r.variant, &r.precision, &r.schedule})
    add(*text);
  if (!of_case) add(name_of(r.kind));
  if (!of_case) add(r.part);
  add(attributes_text(r.attributes));
  for (const auto& [name, size] : r.inputs.shape) add(name + "=" + std::to_string(size));
  add(loosened < input_paths ? r.inputs.input : detail::input_without_paths(r.inputs.input));
  add(r.inputs.seed ? std::to_string(*r.inputs.seed) : "");
  add(r.ranks ? std::to_string(*r.ranks) : "");
  if (const auto& at = r.in_situ)
    for (const std::int64_t i : {at->step, at->rank, at->layer, at->call}) add(std::to_string(i));
  // of an agreement the contract is the claim itself
  if (!of_case && (loosened < contract || r.kind == CheckKind::agreement)) add(r.contract);
  if (loosened < provider) add(r.provider);
  if (loosened < device_kind) add(r.device.empty() ? "" : r.device == "cpu" ? "cpu" : "gpu");
  return key;
}

std::vector<Group> groups_of(std::span<const Record> records) {
  std::vector<Group> groups;
  std::unordered_map<std::string, std::size_t> known;
  for (const Record& r : records) {
    const auto [found, is_new] = known.try_emplace(identity(r, nothing), groups.size());
    if (is_new) groups.emplace_back();
    groups[found->second].push_back(&r);
  }
  return groups;
}

/// Joins what has one fellow and no other, and takes it out of both lists.
void join(std::vector<Group>& before, std::vector<Group>& after, int loosened,
          std::vector<ComparedCheck>& to) {
  struct Pair {
    std::vector<Group*> before, after;
  };
  std::unordered_map<std::string, Pair> pairs;
  for (Group& g : before) pairs[identity(*g.front(), loosened)].before.push_back(&g);
  for (Group& g : after) pairs[identity(*g.front(), loosened)].after.push_back(&g);
  for (auto& [key, pair] : pairs) {
    if (pair.before.size() != 1 || pair.after.size() != 1) continue;
    to.push_back({std::move(*pair.before.front()), std::move(*pair.after.front()), {}, {}});
    pair.before.front()->clear();
    pair.after.front()->clear();
  }
  for (std::vector<Group>* groups : {&before, &after})
    std::erase_if(*groups, [](const Group& g) { return g.empty(); });
}

/// A case that was skipped or failed as a whole has one record; the other run has one for each of
/// its outputs. It stands for all of them. `make` puts a check together.
template <class Make>
void join_whole_cases(std::vector<Group>& whole_cases, std::vector<Group>& checks, int loosened,
                      Make make) {
  std::unordered_map<std::string, Group*> known;
  for (Group& g : whole_cases)
    if (g.front()->part.empty()) known.try_emplace(identity(*g.front(), loosened, true), &g);
  std::set<Group*> used;
  for (Group& g : checks) {
    if (g.front()->part.empty()) continue;
    const auto found = known.find(identity(*g.front(), loosened, true));
    if (found == known.end()) continue;
    make(*found->second, std::move(g));
    g.clear();
    used.insert(found->second);
  }
  for (Group* g : used) g->clear();
  for (std::vector<Group>* groups : {&whole_cases, &checks})
    std::erase_if(*groups, [](const Group& g) { return g.empty(); });
}

std::vector<ComparedCheck> joined(std::span<const Record> before, std::span<const Record> after) {
  std::vector<Group> old_groups = groups_of(before), new_groups = groups_of(after);
  std::vector<ComparedCheck> checks;
  for (int loosened = nothing; loosened < end_of_loosened; ++loosened) {
    if (old_groups.empty() || new_groups.empty()) break;
    join(old_groups, new_groups, loosened, checks);
    join_whole_cases(old_groups, new_groups, loosened, [&](const Group& a, Group&& b) {
      checks.push_back({a, std::move(b), {}, {}});
    });
    join_whole_cases(new_groups, old_groups, loosened, [&](const Group& b, Group&& a) {
      checks.push_back({std::move(a), b, {}, {}});
    });
  }
  // by the place of their first record, which points into the run
  std::ranges::sort(checks, {}, [](const ComparedCheck& c) {
    return std::pair(c.before.front(), c.after.front());
  });
  for (Group& g : old_groups) checks.push_back({std::move(g), {}, {}, {}});
  for (Group& g : new_groups) checks.push_back({{}, std::move(g), {}, {}});
  return checks;
}

}  // namespace

std::uint64_t ChangeCounts::compared() const {
  std::uint64_t sum = 0;
  for (const Change c : all_changes) sum += is_compared(c) ? (*this)[c] : 0;
  return sum;
}

bool ComparedCheck::has_same_bits() const {
  if (before.empty() || after.empty()) return false;
  const auto as_first = [&](const Record* r) { return have_same_bits(*r, *before.front()); };
  return std::ranges::all_of(before, as_first) && std::ranges::all_of(after, as_first);
}

bool ComparedCheck::is_new_finding() const {
  const bool was_there = !before.empty() && before.front()->verdict != Verdict::skipped;
  return !was_there && !after.empty() && makes_run_fail(*after.front());
}

const Record& ComparedCheck::shown() const {
  const bool is_whole_case = !after.empty() && after.front()->part.empty();
  return *(after.empty() || (is_whole_case && !before.empty()) ? before : after).front();
}

bool ComparedCheck::is_newly_skipped() const {
  return change == Change::skipped && before.front()->verdict != Verdict::skipped;
}

Change change_between(const Record& before, const Record& after, std::string& decided_by) {
  decided_by.clear();
  if (before.verdict == Verdict::skipped || after.verdict == Verdict::skipped)
    return Change::skipped;
  if (held(before) && after.verdict <= Verdict::exceeds) {
    decided_by = "verdict";
    return Change::contract_broken;
  }
  if (standing(before) == standing(after) && have_same_bits(before, after))
    return Change::same_bits;
  const Order order = order_of(after, before);
  decided_by = order.decided_by;
  if (order.badness == std::strong_ordering::equal) return Change::same_error;
  return order.badness == std::strong_ordering::greater ? Change::worse : Change::better;
}

std::vector<Told> Comparison::differences() const {
  std::vector<Told> differing;
  std::ranges::copy_if(told, std::back_inserter(differing), &Told::differs);
  return differing;
}

int Comparison::exit_code() const {
  const bool found =
      counts[Change::contract_broken] > 0 || counts[Change::worse] > 0 || new_findings > 0;
  return found ? exit_found : exit_clean;
}

Comparison compare(std::span<const Record> before, std::span<const Record> after) {
  Comparison c;
  c.checks = joined(before, after);
  for (ComparedCheck& check : c.checks) {
    classify(check);
    c.counts.add(check.change);
    c.new_findings += check.is_new_finding() ? 1 : 0;
    c.newly_skipped += check.is_newly_skipped() ? 1 : 0;
  }
  c.told = detail::told_by(c.checks);
  return c;
}

}  // namespace opbound
