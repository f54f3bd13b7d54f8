// The a priori bound of softmax and log-softmax, for any summation tree and any accuracy of exp and
// log.
#pragma once

#include <cstdint>

#include "bounds/growth.hpp"

namespace opbound {

/// Bounds of one row, from its exact logits; bounds/README.md 3.1, which refines Blanchard, Higham
/// and Higham 2021 ("Accurately computing the log-sum-exp and softmax functions"): the weighted
/// mean of the elements' errors takes the place of the largest.
///
///   E_j  = (1 + e_exp) exp(u (m - x_j)) - 1, 0 at the maximum
///   E_S  = (1 + sum_j p_j E_j) (1 + G) - 1 + n eta_exp (1 + G) / S, G the growth of the sum
///   |y_j - p_j| <= p_j ((1 + E_j) (1 + u) / (1 - E_S) - 1) + eta_exp (1 + u) / (S (1 - E_S)) + eta
///   log: |y_j - l_j| <= (u (m - x_j) + L (1 + u)) + u |l_j| + ..., L = E' + e_log (log S + E'), E'
///   = -log(1 - E_S)
///
/// x(j) gives the row's j-th logit, which the compute format must hold. Sums of this function's own
/// are in double: up to n = 2^20 their relative error is below 2^-30, covered by `slack`; no bound
/// beyond.
class SoftmaxTheorem {
 public:
  static constexpr std::int64_t longest = std::int64_t{1} << 20;
  static constexpr double slack = 1 + 0x1p-28;

  template <class X>
  OPBOUND_HD SoftmaxTheorem(std::int64_t n, X x, const Arithmetic& a)
      : a_(a), is_short_(n <= longest) {
    for (std::int64_t j = 0; j < n; ++j) top_ = j == 0 ? x(j) : max(top_, x(j));
    double weighted = 0;
    for (std::int64_t j = 0; j < n; ++j) {
      const double w = exp(x(j) - top_);
      sum_ += w;
      if (w > 0) weighted += w * element_growth(x(j));
    }
    const double mean = weighted / sum_ * slack;
    const double grown = 1 + a.sum_growth(n, a.u);
    sum_growth_ =
        (1 + mean) * grown - 1 + static_cast<double>(n) * a.absolute(Function::exp) * grown / sum_;
    sum_growth_ *= slack;
  }

  /// False where the bound says nothing: special values, a sum that may vanish, or a longer row.
  OPBOUND_HD bool holds() const { return is_short_ && sum_growth_ < 1 && top_ - top_ == 0; }

  /// Bound of exp(x - max) / S.
  OPBOUND_HD double of_quotient(double x) const { return quotient(x, 1); }
  /// Bound of exp(x - max) (1 / S): one rounding more.
  OPBOUND_HD double of_product(double x) const { return quotient(x, 2); }
  /// Bound of (x - max) - log S.
  OPBOUND_HD double of_log(double x) const {
    const double u = a_.u, left = top_ - x, value = left + log(sum_);
    return ((u * left + in_log()) * (1 + u) + u * value + a_.eta) * slack;
  }
  /// Bound of max + log S.
  OPBOUND_HD double of_log_sum() const {
    const double u = a_.u, value = abs(top_ + log(sum_));
    return (in_log() * (1 + u) + u * value + a_.eta) * slack;
  }

 private:
  /// What log S differs by: E' + e_log (log S + E').
  OPBOUND_HD double in_log() const {
    const double e = -log1p(-sum_growth_);
    return e + a_.relative(Function::log) * (log(sum_) + e) + a_.eta;
  }

  OPBOUND_HD double element_growth(double x) const {
    if (x == top_) return 0;
    return (1 + a_.relative(Function::exp)) * exp(a_.u * (top_ - x)) - 1;
  }

  OPBOUND_HD double quotient(double x, int roundings) const {
    const double u = a_.u, p = exp(x - top_) / sum_ * slack, rest = 1 - sum_growth_;
    const double grown = (1 + element_growth(x)) * (1 + growth(roundings, u)) / rest - 1;
    return (p * grown + a_.absolute(Function::exp) * (1 + growth(roundings, u)) / (sum_ * rest) +
            roundings * a_.eta) *
           slack;
  }

  Arithmetic a_;
  bool is_short_;
  double top_ = 0;
  double sum_ = 0;
  double sum_growth_ = 0;
};

}  // namespace opbound
