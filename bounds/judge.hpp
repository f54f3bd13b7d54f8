// Rule (A) of bounds/README.md 0.2: is a stored value one that a kernel within its bound could have
// stored?
#pragma once

#include <cstdint>

#include "ops/format.hpp"
#include "reference/exact.hpp"
#include "reports/verdict.hpp"

namespace opbound {

/// How an output is stored. `rounds`: the store is a further rounding, because the output is
/// narrower than the compute format; else the bound contains the last rounding.
struct Store {
  Format format;
  bool rounds;
};

/// One element against its bound.
struct Judgement {
  Verdict verdict = Verdict::undecided;
  /// The smallest L with RN(y - L B) <= s <= RN(y + L B); infinite where no L will do.
  double ratio = 0;
  /// How many stored values would have passed; 1 is as sharp as can be.
  double acceptable = 1;
  /// (s - y) / ulp(y), signed; infinite where only one of both is finite; NaN where nothing is
  /// known of y.
  double error_ulp = 0;
  /// Is y known to 2^-16 ulp? A table prints four digits of an error. Else the reference has to
  /// be sharper for error_ulp to mean anything.
  bool is_error_known = true;
  /// NaN or infinity where the accepted interval has none, or the reverse.
  bool nonfinite_mismatch = false;
};

/// Judges the stored value `got` (NaN, infinities allowed) of an element whose exact value is
/// `exact`, with |value before the store - exact| <= bound for every correct kernel.
///
///   within   iff RN(high - B) <= s <= RN(low + B)  for the whole of [low, high]
///   exceeds  iff s < RN(low - B) or s > RN(high + B)
///   else the reference has to be sharper: `undecided`.
///
/// RN(z) <= s is asked as z <= midpoint above s (< where the tie goes to the neighbour), so only
/// differences exact - midpoint are needed, which Exact gives to 100 bits even in fp64.
/// An infinite bound, or one above the gauge that lets more than one value pass, is `vacuous`.
/// `claims_nan`: where NaN is exact nothing else passes, whatever the bound; false where not every
/// kernel of the contract gives NaN, so that nothing is claimed.
Judgement judge(const Exact& exact, double bound, double gauge, double got, const Store& store,
                bool claims_nan = true);

}  // namespace opbound
