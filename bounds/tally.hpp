// What is said of many judged elements together, on the host and on the device: the same runs of
// elements, merged in the same order, so that not one bit of a statistic depends on where it was
// made.
#pragma once

#include <cstdint>

#include "bounds/judge.hpp"
#include "ops/tensor.hpp"
#include "reports/ulp_histogram.hpp"

namespace opbound {

/// What element `index` with these bits adds to a tensor's hash: splitmix64 (Steele, Lea and Flood
/// 2014) of both, so that the sum, in whatever order, tells tensors apart.
OPBOUND_HD constexpr std::uint64_t element_hash(std::int64_t index, std::uint64_t bits) {
  const auto mix = [](std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  };
  return mix(bits + mix((static_cast<std::uint64_t>(index) + 1) * 0x9e3779b97f4a7c15ULL));
}

/// The bits of an element of a tensor, every NaN canonical.
OPBOUND_HD inline std::uint64_t canonical_bits(const TensorView& view, std::int64_t i) {
  return is_float(view.element)
             ? encode(format_of(view.element), view.at(i))
             : static_cast<std::uint64_t>(load_index(view.element, view.data, view.offset(i)));
}

/// Counts and sums over judged elements. Statistics are over elements whose exact and got value are
/// numbers.
struct Tally {
  std::uint64_t within = 0, exceeds = 0, undecided = 0, vacuous = 0;
  std::uint64_t nonfinite_mismatch = 0, numbers = 0;
  std::uint64_t hash = 0;        ///< of the outputs' bits
  std::uint64_t proof_hash = 0;  ///< of the bounds' and the first reference's
  double acceptable_sum = 0, acceptable_max = 0;
  double error_sum = 0, error_max = 0, signed_sum = 0, square_sum = 0;

  /// The element with the largest ratio, then the largest error, then the smallest index; failing
  /// and undecided ones before all others.
  std::int64_t worst = -1;
  int worst_rank = -1;
  double worst_ratio = 0, worst_error = 0;

  OPBOUND_HD std::uint64_t checked() const { return within + exceeds + undecided + vacuous; }

  /// One element alone.
  OPBOUND_HD static Tally of(const Judgement& j, std::int64_t index, double most_doubt_ulp) {
    Tally t;
    t.within = j.verdict == Verdict::within ? 1 : 0;
    t.exceeds = j.verdict == Verdict::exceeds ? 1 : 0;
    t.vacuous = j.verdict == Verdict::vacuous ? 1 : 0;
    t.undecided = 1 - t.within - t.exceeds - t.vacuous;
    t.nonfinite_mismatch = j.nonfinite_mismatch ? 1 : 0;
    t.worst = index;
    t.worst_rank = t.exceeds != 0 ? 3 : t.undecided != 0 ? 2 : t.within != 0 ? 1 : 0;
    t.worst_ratio = t.worst_rank == 0 ? 0 : j.ratio;
    t.worst_error = std::isnan(j.error_ulp) ? 0 : std::fabs(j.error_ulp);
    if (!(j.error_doubt_ulp <= most_doubt_ulp)) return t;
    if (!std::isfinite(j.error_ulp) || !std::isfinite(j.acceptable)) return t;
    t.numbers = 1;
    t.acceptable_sum = t.acceptable_max = j.acceptable;
    t.error_sum = t.error_max = t.worst_error;
    t.signed_sum = j.error_ulp;
    t.square_sum = j.error_ulp * j.error_ulp;
    return t;
  }

  OPBOUND_HD void add(const Tally& o) {
    within += o.within;
    exceeds += o.exceeds;
    undecided += o.undecided;
    vacuous += o.vacuous;
    nonfinite_mismatch += o.nonfinite_mismatch;
    numbers += o.numbers;
    hash += o.hash;
    proof_hash += o.proof_hash;
    acceptable_sum += o.acceptable_sum;
    acceptable_max = std::fmax(acceptable_max, o.acceptable_max);
    error_sum += o.error_sum;
    error_max = std::fmax(error_max, o.error_max);
    signed_sum += o.signed_sum;
    square_sum += o.square_sum;
    if (!o.is_worse_than(*this)) return;
    worst = o.worst;
    worst_rank = o.worst_rank;
    worst_ratio = o.worst_ratio;
    worst_error = o.worst_error;
  }

 private:
  OPBOUND_HD bool is_worse_than(const Tally& o) const {
    if (worst_rank != o.worst_rank) return worst_rank > o.worst_rank;
    if (worst_ratio != o.worst_ratio) return worst_ratio > o.worst_ratio;
    if (worst_error != o.worst_error) return worst_error > o.worst_error;
    return worst < o.worst;
  }
};

/// How a team merges tallies.
struct Merge {
  OPBOUND_HD static Tally combine(Tally a, const Tally& b) {
    a.add(b);
    return a;
  }
  template <class T>
  OPBOUND_HD static Tally empty() {
    return {};
  }
};

/// Elements, or tallies, that one team merges: tallies of runs are merged by runs again until one
/// is left.
inline constexpr std::int64_t run_length = 4096;

OPBOUND_HD constexpr std::int64_t runs_of(std::int64_t count) {
  return (count + run_length - 1) / run_length;
}

/// term(i) of the elements of one run.
template <class Team, class F>
OPBOUND_HD Tally tally_run(const Team& team, std::int64_t run, std::int64_t count, F term) {
  const std::int64_t first = run * run_length, left = count - first;
  return team.template reduce<Merge>(left < run_length ? left : run_length,
                                     [&](std::int64_t k) { return term(first + k); });
}

/// One element with everything that judges it.
struct JudgedElement {
  double got;
  double value;   ///< of the kernel's bound run
  double radius;  ///< bound before the store
  Exact exact;
  double gauge;
};

/// How the elements of one output are judged.
struct Judge {
  Store store;
  bool is_integer;  ///< integers and booleans are right or wrong
  double most_doubt_ulp =
      0x1p-16;                  ///< a table prints four digits; an error known worse is not told
  bool sharpens_doubts = true;  ///< and is open until it is

  /// `is_final`: no sharper reference will come.
  OPBOUND_HD Judgement of(const JudgedElement& e, bool is_final) const {
    if (is_integer) return of_integer(e);
    // Of a kernel that gives NaN no number is claimed; NaN is, where every execution gives it.
    const bool is_nan = std::isnan(e.value);
    const double radius = is_nan ? rounding::infinite : e.radius;
    Judgement j = judge(e.exact, radius, e.gauge, e.got, store, is_nan && e.radius == 0);
    if (is_final && j.verdict == Verdict::undecided && std::isinf(radius))
      j.verdict = Verdict::vacuous;  // nothing is claimed, whatever the exact value may be
    if (j.verdict == Verdict::exceeds && is_infinity_of_the_algorithm(e))
      j.verdict = Verdict::vacuous;
    return j;
  }

  /// An element's share of the first tally, index and hashes aside.
  template <class Decided, class Open>
  OPBOUND_HD Tally first(const JudgedElement& e, std::int64_t index, Decided decided,
                         Open open) const {
    const Judgement j = of(e, false);
    Tally t;
    if (is_open(j, false)) {
      t.undecided = 1;
      open();
      return t;
    }
    t = Tally::of(j, index, most_doubt_ulp);
    if (t.numbers != 0) decided(t.worst_error);
    return t;
  }

  /// Would a sharper reference say more of it?
  OPBOUND_HD bool is_open(const Judgement& j, bool is_final) const {
    const bool is_doubtful = !is_final && sharpens_doubts && !(j.error_doubt_ulp <= most_doubt_ulp);
    return j.verdict == Verdict::undecided || is_doubtful;
  }

 private:
  /// Does every execution of the algorithm give the infinity that was got? What an algebraic
  /// identity makes of infinities may differ from the definition: x (r^2 sum g x) is infinite for r
  /// = infinity where sum g (x r) is NaN. Then neither is held against a kernel.
  OPBOUND_HD bool is_infinity_of_the_algorithm(const JudgedElement& e) const {
    if (!std::isinf(e.value) || e.radius != 0) return false;
    const auto kind = e.value > 0 ? Exact::Class::plus_infinity : Exact::Class::minus_infinity;
    const Exact infinity{e.value, 0, 0, kind};
    return rounding::judge_special(infinity, 0, e.got, store, true).verdict == Verdict::within;
  }

  OPBOUND_HD static Judgement of_integer(const JudgedElement& e) {
    Judgement j;
    j.error_ulp = e.got - e.exact.high;
    j.verdict = j.error_ulp == 0 ? Verdict::within : Verdict::exceeds;
    j.ratio = j.error_ulp == 0 ? 0 : rounding::infinite;
    return j;
  }
};

/// One output tensor with what judges it; the arrays are row-major.
struct JudgedOutput {
  TensorView view;
  const double* value;
  const double* radius;
  const Exact* exact;
  const double* gauge;
  Judge judge;

  OPBOUND_HD JudgedElement element(std::int64_t i) const {
    return {view.at(i), value[i], radius[i], exact[i], gauge[i]};
  }

  /// An element's share of the first tally: one that is open says only that. Calls decided(size of
  /// its error, ulp) or open().
  template <class Decided, class Open>
  OPBOUND_HD Tally first(std::int64_t i, Decided decided, Open open) const {
    Tally t = judge.first(element(i), i, decided, open);
    t.hash = element_hash(i, canonical_bits(view, i));
    t.proof_hash = proof_of(i);
    return t;
  }

 private:
  OPBOUND_HD std::uint64_t proof_of(std::int64_t i) const {
    constexpr Format f = fp64;  // in device memory too
    std::uint64_t h = element_hash(i, static_cast<std::uint64_t>(exact[i].kind));
    for (const double x :
         {value[i], radius[i], exact[i].high, exact[i].low, exact[i].radius, gauge[i]})
      h = element_hash(i, h ^ encode(f, x));
    return h;
  }
};

}  // namespace opbound
