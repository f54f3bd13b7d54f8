// Generators of structure: rows (the last axis) that strain a sum or a maximum, and pairs whose sum
// or product is hard to round.
#include <array>

#include "ops/number.hpp"
#include "suites/generator.hpp"

namespace opbound {
namespace {

using namespace detail;
using Parameters = std::span<const double>;

// ---- cancellation

/// sigma keeps the largest normal sample, 8.6 sigma, finite.
void check_cancellation(Parameters p, const Format& f) {
  require_between("sigma", p[0], f.smallest_normal(), f.largest() / 16);
}

/// Neighbours in columns 2j and 2j + 1 are a and -a moved by -1, 0 or 1 ulp: |row sum| <= (n / 2)
/// ulp(max a). The last element of an odd row is 0.
double cancellation(const Place& p) {
  const bool is_second = p.column() % 2 != 0;
  if (!is_second && p.column() + 1 == p.row_length) return 0;
  const PhiloxCounter pair = p.words_of(is_second ? p.index - 1 : p.index);
  const double a = round_to(p.format, p.parameters[0] * standard_normal(pair));
  if (!is_second) return a;
  const int step = static_cast<int>(p.words()[0] % 3) - 1;
  return -(a + step * ulp(p.format, a));
}

// ---- ties

/// The odd y with x y = c modulo 2^digits, for odd x and c: Newton's iteration doubles the digits
/// of 1/x, of which x itself has three.
std::uint64_t modular_quotient(std::uint64_t c, std::uint64_t x, int digits) {
  std::uint64_t inverse = x;
  for (int correct = 3; correct < 64; correct *= 2) inverse *= 2 - x * inverse;
  return (c * inverse) & ((std::uint64_t{1} << digits) - 1);
}

struct Factors {
  std::uint64_t first, second;
};

/// Significands of p digits whose product of 2p digits ends in 2^(p-1) +- 1: as near to a midpoint
/// as a product gets without being one. Both are above 0.708 * 2^p > 2^(p - 1/2), so that there are
/// 2p digits. {0, 0} if a few trials find none.
Factors nearly_tied_factors(const Format& f, std::uint64_t bits) {
  const std::uint64_t half = std::uint64_t{1} << (f.digits - 1);
  const auto least = static_cast<std::uint64_t>(0.708 * power_of_two(f.digits)) + 1;
  constexpr std::uint64_t weyl = 0x9e3779b97f4a7c15;  // 2^64 (sqrt 5 - 1) / 2: steps that spread
  for (std::uint64_t trial = 0; trial < 32; ++trial) {
    const std::uint64_t first = random_significand(f, bits + trial * weyl) | 1;
    const std::uint64_t second = modular_quotient(bits & 1 ? half + 1 : half - 1, first, f.digits);
    if (first >= least && second >= least) return {first, second};
  }
  return {0, 0};
}

/// m * 3/2 is a midpoint: m odd and 2^p <= 3m < 2^(p+1), so that 3m has p + 1 digits.
Factors tied_factors(const Format& f, std::uint64_t bits) {
  const std::uint64_t least = (std::uint64_t{1} << (f.digits - 1)) + 1;
  const std::uint64_t choices = ((std::uint64_t{2} << f.digits) / 3 - least) / 2 + 1;
  return {least + 2 * (bits % choices), std::uint64_t{3} << (f.digits - 2)};
}

/// a + b is a midpoint of the format, or next to one: b = +-ulp(a)/2 (1 + k ulp(1)), k = -1, 0, 1.
/// Below a power of two the values lie closer, so there b has a's sign.
double tied_sum(const Place& p, bool is_first) {
  const Format& f = p.format;
  const PhiloxCounter w = p.words_of(p.index - p.index % 2);
  const std::uint64_t significand = random_significand(f, join(w[0], w[1]));
  const double ulp_of_one = power_of_two(1 - f.digits);
  if (is_first) return with_random_sign(static_cast<double>(significand) * ulp_of_one, w[2]);
  const bool is_power = significand == std::uint64_t{1} << (f.digits - 1);
  const int k = static_cast<int>(w[3] % 3) - 1;
  return with_random_sign(ulp_of_one / 2 * (1 + k * ulp_of_one), is_power ? w[2] : w[2] << 1);
}

/// c d is a midpoint, or as near to one as a product gets.
double tied_product(const Place& p, bool is_first) {
  const Format& f = p.format;
  const PhiloxCounter w = p.words_of(p.index - p.index % 2);
  const std::uint64_t bits = join(w[0], w[1]);
  Factors m = w[3] % 2 == 0 ? tied_factors(f, bits) : nearly_tied_factors(f, bits);
  if (m.first == 0) m = tied_factors(f, bits);
  const auto significand = static_cast<double>(is_first ? m.first : m.second);
  return with_random_sign(significand * power_of_two(1 - f.digits), is_first ? w[2] : w[2] << 1);
}

/// Elements in fours a, b, c, d.
double ties(const Place& p) {
  const bool is_first = p.index % 2 == 0;
  return p.index % 4 < 2 ? tied_sum(p, is_first) : tied_product(p, is_first);
}

// ---- increasing, one_hot

void check_increasing(Parameters p, const Format&) {
  require_between("start", p[0], -fp64.largest(), fp64.largest());
  require_between("step", p[1], 0, fp64.largest());
}
/// An online softmax must rescale at every element.
double increasing(const Place& p) {
  return p.parameters[0] + p.parameters[1] * static_cast<double>(p.column());
}

double one_hot(const Place& p) {
  const PhiloxCounter w = p.words_of(p.row() * p.row_length);
  const bool is_hot = p.column() == join(w[0], w[1]) % p.row_length;
  return p.parameters[is_hot ? 0 : 1];
}

void check_nothing(Parameters, const Format&) {}

constexpr std::array table{
    Generator{{"cancellation", "sigma=1",
               "neighbours a, -a (1 ulp apart or equal), a normal: every row sums to nearly 0"},
              check_cancellation,
              cancellation},
    Generator{{"ties", "",
               "fours a, b, c, d: a + b and c d are midpoints between two values, or next to one"},
              check_nothing,
              ties},
    Generator{
        {"increasing", "start=0 step=1", "start + step * column: every element is a new maximum"},
        check_increasing,
        increasing},
    Generator{
        {"one_hot", "value=10 background=0", "background, and value at a random place of a row"},
        check_nothing,
        one_hot}};

}  // namespace

std::span<const Generator> detail::row_generators() { return table; }

}  // namespace opbound
