// What judges a large product that was summed in fp64: element by element, and row by row against
// random signs. Kernels of every order, with products fused or rounded.
#pragma once

#include <cmath>

#include "bounds/tracked.hpp"
#include "ops/format.hpp"
#include "reference/exact.hpp"

namespace opbound {

/// One element: S = sum a b and M = sum |a b| of k terms, whose fp64 sums by fused multiply-adds of
/// operands that fp32 holds (so that fp64 neither overflows nor underflows) are `sum` and `size`.
///
///   exact   |S' - S| <= k 2^-53 M (1 + k 2^-53)      (Higham 2002, 3.1, one rounding a term)
///   gauge   M <= M' (1 + 2 k 2^-53)
///   bound   |fl - S| <= k u (1 + u) M + k eta (1 + k u): (k - 1) u of the rounded products'
///           magnitudes (Jeannerod and Rump 2013, any order, any k), which are at most (1 + u) M +
///           k eta, and u M + k eta of the products' own.
///
/// The bound is infinite where a partial sum may overflow. NaN is one in every order, for then an
/// operand is not finite; so its radius is 0.
struct ProductElement {
  Exact exact;
  double gauge;
  double value;  ///< as a bound's run gives it: NaN where every kernel gives NaN
  double bound;

  OPBOUND_HD ProductElement(double terms, double sum, double size, const Format& compute)
      : gauge(size * (1 + terms * 0x1p-52)), value(sum) {
    const double u = compute.unit_roundoff(), eta = compute.eta(), tiny = terms * 0x1p-53;
    const bool is_nan = sum != sum, is_finite = gauge < detail::infinite;
    const bool may_overflow = !(gauge * (1 + terms * u) <= compute.largest());
    bound = is_nan         ? 0
            : may_overflow ? detail::infinite
                           : detail::up(terms * (u * (1 + u) * gauge + eta * (1 + terms * u)));
    exact = {sum, 0, is_finite ? detail::up(tiny * (1 + tiny) * gauge) : 0,
             is_nan      ? Exact::Class::nan
             : is_finite ? Exact::Class::finite
             : sum > 0   ? Exact::Class::plus_infinity
                         : Exact::Class::minus_infinity};
  }
};

enum class RowVerdict : unsigned char { passes, fails, unjudged };

/// Row i of d = a b of k terms and n columns, against v of random signs (Freivalds 1979): with Q =
/// sum_t |a_it| sum_j |b_tj| and D = sum_j |d_ij|, for every kernel of any order,
///
///   |(d v)_i - (a (b v))_i| <= k u (1 + u) Q + n k eta (1 + k u) + u_d D + n eta_d,
///
/// u_d and eta_d of the store. fp64's own errors, (2 n + k) 2^-53 (Q + D), come on top, twice,
/// since Q and D are such sums themselves (k u <= 1). A row with an element that is off by more
/// than this slack passes one vector with probability at most 1/2: whatever the other signs are,
/// the two signs of that element give values more than two slacks apart.
struct ProductRow {
  double slack;
  bool may_overflow;

  OPBOUND_HD ProductRow(double k, double n, double q, double size, const Format& compute,
                        const Format& stored) {
    const double u = compute.unit_roundoff();
    slack = detail::up(k * u * (1 + u) * q + n * k * compute.eta() * (1 + k * u) +
                       stored.unit_roundoff() * size + n * stored.eta() +
                       (2 * n + k) * 0x1p-52 * (q + size));
    const double largest =
        compute.largest() < stored.largest() ? compute.largest() : stored.largest();
    may_overflow = !(q * (1 + k * u) <= largest);
  }

  /// Of what `got` = (d v)_i and `exact` = (a (b v))_i say. Of a row that is not finite nothing is
  /// said, unless finite operands cannot have overflowed.
  OPBOUND_HD RowVerdict of(double got, double exact) const {
    if (!(slack < detail::infinite)) return may_overflow ? RowVerdict::unjudged : RowVerdict::fails;
    const double difference = got - exact;
    return difference <= slack && -difference <= slack ? RowVerdict::passes : RowVerdict::fails;
  }
};

}  // namespace opbound
