// A priori bounds of a normalised row, for any summation tree and any accuracy of rsqrt.
#pragma once

#include <cstdint>

#include "bounds/growth.hpp"
#include "ops/format.hpp"
#include "reference/double_double.hpp"

namespace opbound {

/// bounds/README.md 2.1, derived there. A running bound does not see that deviations sum to 0: it
/// carries the mean's error d into the variance as 2 mean|x - mu| d, where (Pythagoras)
///   mean (x - m)^2 = var + (m - mu)^2 exactly, so that
///   var' in [var (1 - low) - tiny, (var + d^2) (1 + high) + tiny].
///
/// With c = x - mu, s = var + eps, r = 1 / sqrt(s), rho the error of rsqrt, P the roundings:
///   rstd: R = max((1 + rho) / sqrt(1 - down) - 1, 1 - (1 - rho) / sqrt(1 + up)), relative to r
///   c':   |c' - c| <= C = u |c| + d (1 + u)
///   xhat: |xhat' - xhat| <= r (|c| ((1 + R) (1 + u) - 1) + C (1 + R) (1 + u)) + eta
///
/// x(j) gives the exact row; d bounds the error of the computed mean, whichever way it was found.
/// The exact mean is a double-double, everything else is a sum of terms of one sign in double: up
/// to 2^20 of them have a relative error below 2^-30, covered by `slack`.
class LayerNormTheorem {
 public:
  static constexpr double slack = 1 + 0x1p-28;

  struct Row {
    double mean_error;  ///< d
    double eps;
    Format eps_format;
    bool by_reciprocal;  ///< means are products with fl(1/n)
  };

  template <class X>
  OPBOUND_HD LayerNormTheorem(std::int64_t n, X x, const Row& row, const Arithmetic& a) : a_(a) {
    const auto count = static_cast<double>(n);
    const double smallest_normal = a.eta / a.u;
    d_ = row.mean_error;
    if (n < 1 || n > 1 << 20 || !(d_ < detail::infinite)) return;
    if (row.by_reciprocal && count * smallest_normal > 1) return;  // 1/n may underflow
    DoubleDouble total{0, 0};
    for (std::int64_t j = 0; j < n; ++j) total = total + DoubleDouble{x(j), 0};
    mean_ = total / DoubleDouble{count, 0};
    double variance = 0;
    for (std::int64_t j = 0; j < n; ++j) variance += deviation(x(j)) * deviation(x(j)) / count;
    // the largest number of a format is 4 (1 - u) / smallest_normal: no sum of squares overflows
    if (!(count * (variance + d_ * d_) * (2 + a.sum_growth(n, a.u)) < 2 / smallest_normal)) return;
    relative_error(n, variance, row);
  }

  /// False where the bound says nothing: special values, overflow, a variance that may vanish.
  OPBOUND_HD bool holds() const { return r_ > 0; }

  OPBOUND_HD double of_rstd() const { return r_ * relative_ * slack; }

  /// |xhat| and the bound of its error, of the element x.
  struct Normalised {
    double size, error;
  };
  OPBOUND_HD Normalised normalised(double x) const {
    const double c = abs(deviation(x)), u = a_.u;
    const double near = u * c + d_ * (1 + u);
    const double grown = relative_ + u + relative_ * u;
    return {c * r_ * slack, (r_ * (c * grown + near * (1 + grown)) + a_.eta) * slack};
  }

  OPBOUND_HD double deviation(double x) const { return (DoubleDouble{x, 0} - mean_).high; }
  /// The exact xhat, to double.
  OPBOUND_HD double value(double x) const { return deviation(x) * r_; }

 private:
  /// Roundings of the variance: x - m twice, its square, the mean; n itself where n u > 1.
  OPBOUND_HD void relative_error(std::int64_t n, double variance, const Row& row) {
    const double u = a_.u, eta = a_.eta, rho = a_.relative(Function::rsqrt);
    const double sums = a_.sum_growth(n, u), counted = static_cast<double>(n) * u > 1 ? 2 * u : 0;
    const double steps = row.by_reciprocal ? 5 : 4;
    const double high = expm1(steps * log1p(u) + log1p(sums) + log1p(counted));
    const double low = min(1.0, steps * u + sums + counted);
    const double tiny = eta * (2 + high);  // of the squares and of the mean
    const Format& f = row.eps_format;
    const bool is_held = f.unit_roundoff() <= u && f.eta() <= eta;
    const double eps_u = is_held ? 0 : f.unit_roundoff(), eps_eta = is_held ? 0 : f.eta();
    if (!is_held && row.eps > f.largest() / 2) return;
    const double eps_error = row.eps * (u + eps_u + u * eps_u) + (eta + eps_eta) * (1 + eps_u);

    const double s = variance + row.eps;
    const double above = variance * high + d_ * d_ * (1 + high) + tiny + eps_error;
    const double up = above / s * (1 + u) * slack + u;
    const double down = (variance * low + tiny + eps_error) / s * slack + u;
    if (!(down < 1 && rho < 1 && s > 0)) return;
    relative_ = max(expm1(log1p(rho) - log1p(-down) / 2), -expm1(log1p(-rho) - log1p(up) / 2));
    r_ = 1 / sqrt(s);
  }

  Arithmetic a_;
  DoubleDouble mean_{0, 0};
  double d_ = 0, r_ = 0, relative_ = 0;
};

}  // namespace opbound
