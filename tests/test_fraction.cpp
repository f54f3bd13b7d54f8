// Enclosures that know their value as an exact quotient, against GMP's rational numbers.
#include <gmp.h>  // before mpfr.h, which then compares with rational numbers
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "reference/enclosure.hpp"

namespace opbound {
namespace {

Enclosure point(int x) { return from<Enclosure>(static_cast<double>(x)); }

/// A rational number of GMP's.
class Rational {
 public:
  explicit Rational(int x = 0) {
    mpq_init(x_);
    mpq_set_si(x_, x, 1);
  }
  Rational(const Rational& other) : Rational() { mpq_set(x_, other.x_); }
  Rational& operator=(const Rational& other) {
    mpq_set(x_, other.x_);
    return *this;
  }
  ~Rational() { mpq_clear(x_); }

  int sign() const { return mpq_sgn(x_); }
  bool is_binary() const { return mpz_popcount(mpq_denref(x_)) == 1; }
  bool operator<(const Rational& other) const { return mpq_cmp(x_, other.x_) < 0; }
  bool is_in(const Enclosure& e) const {
    return mpfr_cmp_q(e.low().get(), x_) <= 0 && mpfr_cmp_q(e.high().get(), x_) >= 0;
  }
  template <class F>
  static Rational of(F f, const Rational& a, const Rational& b) {
    Rational result;
    f(result.x_, a.x_, b.x_);
    return result;
  }

 private:
  mpq_t x_;
};

struct Both {
  Enclosure enclosure;
  Rational exact;
};

Both combine(int operation, const Both& a, const Both& b) {
  switch (operation) {
    case 0:
      return {a.enclosure + b.enclosure, Rational::of(mpq_add, a.exact, b.exact)};
    case 1:
      return {a.enclosure - b.enclosure, Rational::of(mpq_sub, a.exact, b.exact)};
    case 2:
      return {a.enclosure * b.enclosure, Rational::of(mpq_mul, a.exact, b.exact)};
    case 3:
      return {max(a.enclosure, b.enclosure), a.exact < b.exact ? b.exact : a.exact};
    case 4:
      return {min(a.enclosure, b.enclosure), a.exact < b.exact ? a.exact : b.exact};
    case 5:
      return {sqrt(a.enclosure * a.enclosure),
              a.exact.sign() < 0 ? Rational::of(mpq_sub, Rational(0), a.exact) : a.exact};
    default:
      if (b.exact.sign() == 0) return a;
      return {a.enclosure / b.enclosure, Rational::of(mpq_div, a.exact, b.exact)};
  }
}

/// Short expressions of small whole numbers: what is a binary number is found to be one.
TEST(Fraction, DecidesQuotientsOfNumbers) {
  const PrecisionScope scope(8192);
  std::mt19937_64 random(31);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random()) % n; };
  int fractions = 0, points = 0;
  for (int i = 0; i < 5'000; ++i) {
    std::vector<Both> known;
    for (int k = 0; k < 4; ++k) {
      const int x = static_cast<int>(below(41)) - 20;
      known.push_back({point(x), Rational(x)});
    }
    for (int k = 0; k < 6; ++k) {
      const auto pick = [&] { return known[below(known.size())]; };
      known.push_back(combine(static_cast<int>(below(7)), pick(), pick()));
      const auto& [enclosure, exact] = known.back();
      ASSERT_TRUE(exact.is_in(enclosure));
      ASSERT_EQ(enclosure.is_point(), exact.is_binary());
      ++(exact.is_binary() ? points : fractions);
    }
  }
  EXPECT_GT(fractions, 2'000);
  EXPECT_GT(points, 2'000);
}

/// At a precision that does not hold them, numerators are let go and intervals remain.
TEST(Fraction, DropsFractionsThatItCannotHold) {
  const PrecisionScope scope(64);
  Enclosure product = point(1) / point(3);
  for (int k = 5; k < 60; k += 2) product = product * (point(k) / point(k + 2));
  for (int k = 59; k > 5; k -= 2) product = product * (point(k + 2) / point(k));
  EXPECT_EQ(product.fraction(), nullptr);
  EXPECT_FALSE(product.is_point());
  const PrecisionScope fine(400);
  EXPECT_TRUE(product.contains(from<Mpfr>(5.0) / from<Mpfr>(21.0)));
}

}  // namespace
}  // namespace opbound
