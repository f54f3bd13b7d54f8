// What is said of many judged elements together, on the host and on the device: the same runs of
// elements, merged in the same order, so that not one bit of a statistic depends on where it was
// made.
#pragma once

#include <cstdint>

#include "bounds/judge.hpp"
#include "bounds/ulp_histogram.hpp"

namespace opbound {

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
  std::int64_t worst = -1, worst_rank = -1;
  double worst_ratio = 0, worst_error = 0;

  OPBOUND_HD std::uint64_t checked() const { return within + exceeds + undecided + vacuous; }

  /// One element more; false where it has no part in the statistics.
  OPBOUND_HD bool take(const Judgement& j, std::int64_t index, double most_doubt_ulp) {
    const bool is_within = j.verdict == Verdict::within, fails = j.verdict == Verdict::exceeds;
    const bool is_vacuous = j.verdict == Verdict::vacuous;
    within += is_within ? 1 : 0;
    exceeds += fails ? 1 : 0;
    vacuous += is_vacuous ? 1 : 0;
    undecided += is_within || fails || is_vacuous ? 0 : 1;
    nonfinite_mismatch += j.nonfinite_mismatch ? 1 : 0;
    const double error = std::isnan(j.error_ulp) ? 0 : std::fabs(j.error_ulp);
    take_worst(fails        ? 3
               : is_vacuous ? 0
               : is_within  ? 1
                            : 2,
               is_vacuous ? 0 : j.ratio, error, index);
    if (!(j.error_doubt_ulp <= most_doubt_ulp)) return false;
    if (!std::isfinite(j.error_ulp) || !std::isfinite(j.acceptable)) return false;
    ++numbers;
    acceptable_sum += j.acceptable;
    acceptable_max = acceptable_max < j.acceptable ? j.acceptable : acceptable_max;
    error_sum += error;
    error_max = error_max < error ? error : error_max;
    signed_sum += j.error_ulp;
    square_sum += j.error_ulp * j.error_ulp;
    return true;
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
    if (o.worst >= 0) take_worst(o.worst_rank, o.worst_ratio, o.worst_error, o.worst);
  }

 private:
  OPBOUND_HD void take_worst(std::int64_t rank, double ratio, double error, std::int64_t index) {
    if (rank < worst_rank) return;
    if (rank == worst_rank && !(ratio > worst_ratio)) {
      if (ratio < worst_ratio || error < worst_error) return;
      if (error == worst_error && index > worst) return;
    }
    worst = index;
    worst_rank = rank;
    worst_ratio = ratio;
    worst_error = error;
  }
};

/// Where the tallies of an output's runs go, and what is counted beside them; on the device the
/// addresses are the device's.
struct TallyResult {
  Tally* runs;                ///< one of each run of elements
  std::uint64_t* histogram;   ///< UlpHistogram::most_entries; added to
  std::int64_t* open;         ///< indices of open elements, in no order
  std::uint64_t* open_count;  ///< added to, also beyond the room in `open`
  std::uint64_t open_room;
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

OPBOUND_HD constexpr std::int64_t runs_of(std::int64_t count, std::int64_t length = run_length) {
  return (count + length - 1) / length;
}

/// term(i) of the elements of one run.
template <class Team, class F>
OPBOUND_HD Tally tally_run(const Team& team, std::int64_t run, std::int64_t count, F term) {
  const std::int64_t first = run * run_length, left = count - first;
  return team.template reduce<Merge>(left < run_length ? left : run_length,
                                     [&](std::int64_t k) { return term(first + k); });
}

}  // namespace opbound
