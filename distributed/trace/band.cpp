#include "distributed/trace/band.hpp"

#include <algorithm>
#include <bit>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "ops/hash.hpp"
#include "reports/error.hpp"

namespace opbound::trace {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
/// Distances of neighbouring steps are much alike: fewer steps would show too few draws.
constexpr std::int64_t shortest_window = 32;

void add(std::vector<double>& to, const std::vector<double>& what, double factor) {
  to.resize(std::max(to.size(), what.size()));
  for (std::size_t i = 0; i < what.size(); ++i) to[i] += what[i] * factor;
}

double at(const std::vector<double>& values, std::size_t i) {
  return i < values.size() ? values[i] : 0;
}

}  // namespace

// ---- amplitudes

void Amplitudes::take(std::size_t twin, std::int64_t step, std::span<const double> values) {
  At& s = steps_[step];
  s.squares.resize(std::max(s.squares.size(), values.size()));
  s.of_twin.resize(std::max(s.of_twin.size(), twin + 1));
  ++s.twins;
  for (std::size_t p = 0; p < values.size(); ++p) {
    s.squares[p] += values[p] * values[p];
    s.of_twin[twin] += values[p] * values[p];
  }
}

void Amplitudes::finish(double alpha) {
  // A step that one twin alone has has no limit, and says nothing of others.
  std::erase_if(steps_, [](const auto& s) { return s.second.twins < 2; });
  set_means();
  add_up();
  set_quantiles(alpha);
}

/// Where rounding changed nothing in any twin a step has what the steps of its window have.
void Amplitudes::set_means() {
  for (auto& [step, s] : steps_)
    s.mean = std::accumulate(s.of_twin.begin(), s.of_twin.end(), 0.0) /
             (static_cast<double>(s.twins) * static_cast<double>(s.squares.size()));
  for (auto& [step, s] : steps_) {
    if (s.mean > 0) continue;
    double sum = 0, count = 0;
    const std::int64_t last = 2 * std::max(step, shortest_window / 2);
    for (auto i = steps_.lower_bound(step / 2); i != steps_.end() && i->first <= last; ++i) {
      sum += std::accumulate(i->second.of_twin.begin(), i->second.of_twin.end(), 0.0);
      count += static_cast<double>(i->second.twins * i->second.squares.size());
    }
    s.mean = sum / count;
  }
}

void Amplitudes::add_up() {
  const At* before = nullptr;
  for (auto& [step, s] : steps_) {
    if (before != nullptr) {
      s.by_place = before->by_place;
      s.by_twin = before->by_twin;
      s.values = before->values;
    }
    const double factor = s.mean > 0 ? 1 / s.mean : 0;
    add(s.by_place, s.squares, factor);
    add(s.by_twin, s.of_twin, factor);
    s.values += static_cast<double>(s.twins);
    before = &s;
  }
}

std::pair<const Amplitudes::At*, const Amplitudes::At*> Amplitudes::window(
    std::int64_t step) const {
  const auto first = steps_.lower_bound(step / 2);
  const auto end = steps_.upper_bound(2 * std::max(step, shortest_window / 2));
  return {first == steps_.begin() ? nullptr : &std::prev(first)->second, &std::prev(end)->second};
}

void Amplitudes::set_quantiles(double alpha) {
  double comparisons = 0;
  for (const auto& [step, s] : steps_) comparisons += static_cast<double>(s.squares.size());
  for (auto& [step, s] : steps_) {
    const auto [before, last] = window(step);
    double sum = 0, square = 0;
    for (std::size_t twin = 0; twin < last->by_twin.size(); ++twin) {
      const double own = last->by_twin[twin] - (before != nullptr ? at(before->by_twin, twin) : 0);
      sum += own;
      square += own * own;
    }
    s.freedom = square > 0 ? std::max(1.0, sum * sum / square) : 1;
    s.quantile = boost::math::quantile(
        boost::math::complement(boost::math::students_t(s.freedom), alpha / comparisons / 2));
  }
}

double Amplitudes::limit(std::int64_t step, std::size_t place) const {
  const auto found = steps_.find(step);
  if (found == steps_.end() || place >= found->second.squares.size()) return infinity;
  const auto [before, last] = window(step);
  // What prefix sums of so many positive terms round is added: it may not make a limit smaller.
  const double all = at(last->by_place, place), rounding = all * last->values * 0x1p-52;
  const double sum = all - (before != nullptr ? at(before->by_place, place) : 0) + rounding;
  const double count = last->values - (before != nullptr ? before->values : 0);
  const At& s = found->second;
  const double m = static_cast<double>(s.twins);
  return s.quantile * std::sqrt(s.mean * (sum / count) * (1 + 1 / m));
}

double Amplitudes::least_limit(std::int64_t step) const {
  const auto found = steps_.find(step);
  double least = infinity;
  for (std::size_t p = 0; found != steps_.end() && p < found->second.squares.size(); ++p)
    least = std::min(least, limit(step, p));
  return least;
}

double Amplitudes::spread(std::int64_t step) const {
  const auto found = steps_.find(step);
  return found == steps_.end() ? 0 : std::sqrt(found->second.mean);
}

double Amplitudes::freedom(std::int64_t step) const {
  const auto found = steps_.find(step);
  return found == steps_.end() ? 0 : found->second.freedom;
}

// ---- the band

Band::Band(TraceFile& reference, const std::vector<std::string>& twins, double alpha)
    : alpha_(alpha) {
  if (twins.size() < 2)
    throw InputError("twins", std::to_string(twins.size()) + " of them", "at least 2 traces");
  constexpr const char* expected = "a twin: the same run with --twin";
  const TraceHead head = reference.head();
  const auto spec = nlohmann::json::parse(head.spec, nullptr, false);
  const nlohmann::json::json_pointer kind("/policy/loss_scale/kind");
  is_dynamic_ = spec.is_object() && spec.contains(kind) && spec[kind] == "dynamic";
  std::set<std::uint64_t> seen;  // of the distances' bits
  for (std::size_t i = 0; i < twins.size(); ++i) {
    TraceFile twin(twins[i], TraceFile::Open::read);
    const TraceHead its = twin.head();
    if (its.spec != head.spec || !have_same_text(its, head))
      throw InputError(twins[i], "a run of another spec than " + reference.path(), expected);
    std::uint64_t bits = 0;
    std::int64_t steps = 0;
    bool is_itself = true;
    for_each_distance(reference, twin, [&](const StepDistance& d) {
      ++steps;
      is_itself = is_itself && d.has_same_bits();
      for (const double x : d.parameters)
        bits = element_hash(d.step, bits ^ std::bit_cast<std::uint64_t>(x));
      const auto is_finite = [](double x) { return std::isfinite(x); };
      const bool is_whole =
          d.has_skipped || std::all_of(d.parameters.begin(), d.parameters.end(), is_finite);
      if (d.has_parted || !std::isfinite(d.loss) || !is_whole) return false;
      if (!d.has_skipped) gradient_.take(i, d.step, d.parameters);
      loss_.take(i, d.step, std::span(&d.loss, 1));
      if (!d.kl_nats || !std::isfinite(*d.kl_nats)) return true;
      const double root = std::sqrt(*d.kl_nats);
      kl_.take(i, d.step, std::span(&root, 1));
      return true;
    });
    if (steps == 0)
      throw InputError(twins[i], "no step that " + reference.path() + " has", expected);
    if (is_itself) throw InputError(twins[i], "the reference again, bit for bit", expected);
    if (!seen.insert(bits).second)
      throw InputError(twins[i], "the same run as a twin before it", "twins of other seeds");
  }
  gradient_.finish(alpha / 3);
  loss_.finish(alpha / 3);
  kl_.finish(alpha / 3);
}

double Band::kl_limit(std::int64_t step) const {
  const double root = kl_.limit(step, 0);
  return root * root;
}

std::optional<Excess> excess_of(const StepDistance& d, const Band* band) {
  // Of gradients that overflowed in both runs the finite parts say nothing.
  if (band != nullptr && band->is_dynamic() && (d.has_parted || d.has_skipped)) return std::nullopt;
  std::optional<Excess> worst;
  double farthest = 1;
  for (std::size_t p = 0; p < d.parameters.size(); ++p) {
    const double limit = band != nullptr ? band->limit(d.step, p) : 0;
    const bool exceeds = band != nullptr ? d.parameters[p] > limit : d.differs[p] != 0;
    if (!exceeds) continue;
    // Bits may differ where sketches do not show it.
    const double ratio = limit > 0 ? d.parameters[p] / limit : std::max(d.parameters[p], 0x1p-60);
    if (worst && ratio <= farthest) continue;
    farthest = ratio;
    worst = Excess{d.step, p, d.parameters[p], limit};
  }
  return worst;
}

}  // namespace opbound::trace
