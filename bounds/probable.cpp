#include "bounds/probable.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "ops/format.hpp"

namespace opbound {
namespace {

/// log(n!) - log(sqrt(2 pi n) (n/e)^n). From 16 on the series' next term is below 2e-17.
double stirling_error(double n) {
  if (n >= 16) {
    const double square = n * n;
    return (1.0 / 12 -
            (1.0 / 360 - (1.0 / 1260 - (1.0 / 1680 - 1.0 / 1188 / square) / square) / square) /
                square) /
           n;
  }
  double factorial = 1;
  for (int i = 2; i <= n; ++i) factorial *= i;
  return std::log(factorial) - 0.5 * std::log(2 * std::numbers::pi * n) - n * std::log(n) + n;
}

/// x log(x / m) + m - x >= 0, without the cancellation around x = m.
double deviance(double x, double m) {
  if (std::fabs(x - m) >= 0.1 * (x + m)) return x * std::log(x / m) + m - x;
  const double v = (x - m) / (x + m);
  double sum = (x - m) * v, term = 2 * x * v;
  for (int j = 1;; ++j) {
    term *= v * v;
    const double next = sum + term / (2 * j + 1);
    if (next == sum) return sum;
    sum = next;
  }
}

/// P(X = k) by the saddle point form of Loader 2000 ("Fast and accurate computation of binomial
/// probabilities"): nothing cancels, so the relative error stays near 1e-13; 0 < k < n, p + q = 1.
double probability_of(double k, double n, double p, double q) {
  const double exponent = stirling_error(n) - stirling_error(k) - stirling_error(n - k) -
                          deviance(k, n * p) - deviance(n - k, n * q);
  return std::exp(exponent) * std::sqrt(n / (2 * std::numbers::pi * k * (n - k)));
}

/// P(X <= k) for k at or below the mean: from term to term a factor
/// j q / ((n - j + 1) p) <= 1, falling, so that a geometric series bounds what is left out.
double lower_tail(std::int64_t k, std::int64_t n, double p, double q) {
  const auto size = static_cast<double>(n);
  double sum = 0, j = static_cast<double>(k);
  double term = k == 0 ? std::exp(size * std::log1p(-p)) : probability_of(j, size, p, q);
  for (; j >= 0; --j) {
    sum += term;
    const double factor = j * q / ((size - j + 1) * p);
    if (term * factor <= 0x1p-40 * sum * (1 - factor)) break;
    term *= factor;
  }
  return sum * (1 + 0x1p-30) + 0x1p-1000;  // what underflow may have taken
}

double at_most(std::int64_t k, std::int64_t n, double p, double q) {
  if (k < 0) return 0;
  if (k >= n || p <= 0) return 1;
  if (q <= 0) return 0;
  if (static_cast<double>(k) <= static_cast<double>(n) * p) return lower_tail(k, n, p, q);
  const std::int64_t above = n - k - 1;  // P(X >= k + 1) = P(n - X <= n - k - 1)
  const double rest = lower_tail(above, n, q, p);
  return std::min(1.0, 1 - rest * (1 - 0x1p-29) + 0x1p-52);
}

}  // namespace

double drop_probability(double p, int bits) {
  const double scale = power_of_two(bits);
  return std::ceil(p * scale) / scale;
}

double probability_at_most(std::int64_t k, std::int64_t n, double p) {
  return at_most(k, n, p, 1 - p);
}
double probability_at_least(std::int64_t k, std::int64_t n, double p) {
  return at_most(n - k, n, 1 - p, p);
}

double p_value(const BinomialCount& c) {
  return std::min(1.0, 2 * std::min(probability_at_most(c.successes, c.trials, c.probability),
                                    probability_at_least(c.successes, c.trials, c.probability)));
}

BinomialCount kept_places(Mask mask, double keep_probability) {
  const auto count = static_cast<std::int64_t>(mask.size());
  return {std::count_if(mask.begin(), mask.end(), [](std::uint8_t m) { return m != 0; }), count,
          keep_probability};
}

BinomialCount unequal_neighbours(Mask mask, double keep_probability) {
  BinomialCount c{0, static_cast<std::int64_t>(mask.size() / 2),
                  2 * keep_probability * (1 - keep_probability)};
  for (std::size_t i = 0; i + 1 < mask.size(); i += 2)
    c.successes += (mask[i] != 0) != (mask[i + 1] != 0) ? 1 : 0;
  return c;
}

BinomialCount equal_at_lag(Mask mask, std::int64_t lag, double keep_probability) {
  const double drop = 1 - keep_probability;
  BinomialCount c{0, 0, keep_probability * keep_probability + drop * drop};
  const auto step = static_cast<std::size_t>(lag);
  for (std::size_t i = 0; i + step < mask.size(); ++i) {
    if (i % (2 * step) >= step) continue;
    ++c.trials;
    c.successes += (mask[i] != 0) == (mask[i + step] != 0) ? 1 : 0;
  }
  return c;
}

BinomialCount equal_places(Mask a, Mask b, double keep_probability) {
  const double drop = 1 - keep_probability;
  BinomialCount c{0, static_cast<std::int64_t>(std::min(a.size(), b.size())),
                  keep_probability * keep_probability + drop * drop};
  for (std::size_t i = 0; std::cmp_less(i, c.trials); ++i)
    c.successes += (a[i] != 0) == (b[i] != 0) ? 1 : 0;
  return c;
}

}  // namespace opbound
