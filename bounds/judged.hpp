// Elements with everything that judges them, and what judges those of one output.
#pragma once

#include "bounds/judge.hpp"
#include "bounds/tally.hpp"
#include "ops/hash.hpp"
#include "ops/tensor.hpp"

namespace opbound {

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

  /// An element's share of the first tally, hashes aside: one that is open says only that. Calls
  /// sink.decided(size of its error, ulp) or sink.open(index).
  template <class Sink>
  OPBOUND_HD void first(const JudgedElement& e, std::int64_t index, const Sink& sink,
                        Tally& to) const {
    const Judgement j = of(e, false);
    if (is_open(j, false)) {
      ++to.undecided;
      sink.open(index);
    } else if (to.take(j, index, most_doubt_ulp)) {
      sink.decided(std::fabs(j.error_ulp));
    }
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

  /// An element's share of the first tally, as Judge::first says.
  template <class Sink>
  OPBOUND_HD Tally first(std::int64_t i, const Sink& sink) const {
    Tally t;
    judge.first(element(i), i, sink, t);
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
