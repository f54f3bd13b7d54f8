// Exact tests of random masks: counts that are binomial if the mask is right, their tails, and a
// decision whose false-alarm rate is stated. No normal approximation is made anywhere.
#pragma once

#include <cstdint>
#include <span>

namespace opbound {

/// P(U < p) of U uniform on the multiples of 2^-bits in [0, 1): ceil(p 2^bits) / 2^bits, which is
/// what a comparison drops instead of p. Exact; 0 <= p <= 1, bits <= 53.
double drop_probability(double p, int bits);

/// P(X <= k) and P(X >= k) of X ~ Binomial(n, p), rounded up: at least the true value, and at most
/// 1 + 2^-29 times it plus 2^-1000 where it is below 1/2.
double probability_at_most(std::int64_t k, std::int64_t n, double p);
double probability_at_least(std::int64_t k, std::int64_t n, double p);

/// A count that is Binomial(trials, probability) if a mask is right.
struct BinomialCount {
  std::int64_t successes = 0;
  std::int64_t trials = 0;
  double probability = 0;
};

/// The equal-tailed p-value, min(1, 2 min(P(X <= k), P(X >= k))): at most alpha with probability at
/// most alpha; the test that it makes is that of Clopper and Pearson 1934.
double p_value(const BinomialCount& count);

/// Bonferroni: of `tests` tests of right masks, dependent or not, any alarms with probability at
/// most alpha.
struct Family {
  double alpha = 1e-9;
  int tests = 1;

  bool rejects(const BinomialCount& count) const { return p_value(count) <= alpha / tests; }
};

/// A mask, 1 where it keeps.
using Mask = std::span<const std::uint8_t>;

/// Ones, of all.
BinomialCount kept_places(Mask mask, double keep_probability);

/// Unequal pairs (2i, 2i + 1): Binomial(n/2, 2 p q) of independent places. Overlapping pairs would
/// not be binomial.
BinomialCount unequal_neighbours(Mask mask, double keep_probability);

/// Equal pairs (i, i + lag) with i mod 2 lag < lag, which are disjoint: Binomial(m, p^2 + q^2).
BinomialCount equal_at_lag(Mask mask, std::int64_t lag, double keep_probability);

/// Places where two masks agree, of two steps or two ranks: Binomial(n, p^2 + q^2) if they are
/// independent. The shorter one counts.
BinomialCount equal_places(Mask a, Mask b, double keep_probability);

}  // namespace opbound
