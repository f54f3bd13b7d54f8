// Matrix units (tensor cores): blocks of products, aligned and truncated, and what that errs by.
//
// One step adds b exact products to an accumulator: every addend is cut to f bits after the binary
// point of the largest exponent among them, the sum is exact, and the result is cut to p digits.
// An exponent is the sum of the factors' ones, not normalised, subnormal factors having the least
// exponent of their format. The model and its numbers are Khattak and Mikaitis 2025's and Fasi and
// others 2021's, measured; bounds/README.md 6.1. Hopper's are compared with an H200, every bit of
// 10^8 sums an instruction (tests/test_matrix_unit_device.cpp).
#pragma once

#include <bit>
#include <cstdint>

#include "bounds/growth.hpp"
#include "bounds/tracked.hpp"
#include "ops/format.hpp"

namespace opbound {

struct MatrixUnit {
  int block;      ///< b; 0: there is no unit for this format
  int fraction;   ///< f
  int digits;     ///< p
  int apart = 0;  ///< so many products are summed from 0, then added to the sum so far in fp32
};

/// hopper_mma: what Hopper makes of mma.sync in fp8, which has no unit of its own there. Factors
/// become fp16; of four neighbours the first two go into one step, the others into the next.
enum class Generation : std::uint8_t { volta, ampere, ada, hopper, blackwell, hopper_mma };

/// The unit that takes factors of this format.
OPBOUND_HD constexpr MatrixUnit matrix_unit(Generation g, const Format& f) {
  const bool is_half = f.kind == Kind::fp16 || f.kind == Kind::bf16;
  const bool is_byte = f.kind == Kind::e4m3 || f.kind == Kind::e5m2;
  if (!is_half && !is_byte && f.kind != Kind::tf32) return {0, 0, 0};
  switch (g) {
    case Generation::volta:
      return f.kind == Kind::fp16 ? MatrixUnit{4, 23, 24} : MatrixUnit{0, 0, 0};
    case Generation::ampere:
      return is_byte ? MatrixUnit{0, 0, 0} : MatrixUnit{is_half ? 8 : 4, 24, 24};
    case Generation::ada:
      return is_byte ? MatrixUnit{16, 13, 14} : MatrixUnit{is_half ? 8 : 4, 24, 24};
    case Generation::hopper:
      return is_byte ? MatrixUnit{32, 13, 14} : MatrixUnit{is_half ? 16 : 8, 25, 24};
    case Generation::blackwell:
      return is_byte ? MatrixUnit{32, 25, 24} : MatrixUnit{is_half ? 16 : 8, 25, 24};
    case Generation::hopper_mma:
      return is_byte ? MatrixUnit{16, 25, 24, 32} : MatrixUnit{0, 0, 0};
  }
  return {0, 0, 0};
}

/// What a unit takes of a factor that is stored in `f`: of fp32 the leading bits.
OPBOUND_HD constexpr Format factor_format(const Format& f) {
  constexpr Format leading = tf32;  // a copy: device code has no address of the other
  return f.kind == Kind::fp32 ? leading : f;
}

/// The format whose exponents a unit aligns.
OPBOUND_HD constexpr Format aligned_format(const MatrixUnit& u, const Format& f) {
  constexpr Format half = fp16;
  return u.apart > 0 ? half : factor_format(f);
}

namespace detail {

inline constexpr int largest_block = 32;

/// The factors of one step.
struct UnitBlock {
  int count = 0;
  double a[largest_block], b[largest_block];
};

struct UnitResult {
  double value;
  double lost;  ///< of all that was cut off, the magnitudes added
};

OPBOUND_HD inline int exponent_of(double x, int least) {
  const int e = static_cast<int>(magnitude_bits(x) >> 52) - 1023;
  return e < least ? least : e;
}

/// x cut to a multiple of 2^q, |x| < 2^(q + 62).
OPBOUND_HD inline std::int64_t whole_of(double x, int q) {
  return static_cast<std::int64_t>(x * power_of_two(-q));
}

/// One step. Numbers that are none come out as a plain sum makes them.
OPBOUND_HD inline UnitResult unit_step(const MatrixUnit& u, const Format& fa, const Format& fb,
                                       const UnitBlock& x, double c) {
  constexpr int least_exponent = -133;  // of the largest one: below it nothing is cut further
  int largest = c != 0 ? exponent_of(c, -126) : least_exponent;
  double plain = c;
  for (int i = 0; i < x.count; ++i) {
    plain += x.a[i] * x.b[i];
    if (x.a[i] == 0 || x.b[i] == 0) continue;
    const int e = exponent_of(x.a[i], fa.exponent_min) + exponent_of(x.b[i], fb.exponent_min);
    largest = e > largest ? e : largest;
  }
  if (!is_finite(plain)) return {plain, 0};
  if (largest < least_exponent) largest = least_exponent;
  const int q = largest - u.fraction;
  const double grid = power_of_two(q);
  std::int64_t sum = whole_of(c, q);
  double lost = abs(c - static_cast<double>(sum) * grid);
  for (int i = 0; i < x.count; ++i) {
    const double product = x.a[i] * x.b[i];
    const std::int64_t whole = whole_of(product, q);
    lost += abs(product - static_cast<double>(whole) * grid);
    sum += whole;
  }
  const double exact = static_cast<double>(sum) * grid;
  if (sum == 0) return {0, lost};
  const int last = exponent_of(exact, -126) - u.digits + 1;
  const double value = static_cast<double>(whole_of(exact, last)) * power_of_two(last);
  if (abs(value) > fp32.largest()) return {value > 0 ? infinite : -infinite, lost};
  return {value, lost + abs(exact - value)};
}

/// The products that an instruction takes at once, u.apart or u.block of them, on top of c.
OPBOUND_HD inline UnitResult unit_instruction(const MatrixUnit& u, const Format& fa,
                                              const Format& fb, const UnitBlock& x, double c) {
  if (u.apart == 0) return unit_step(u, fa, fb, x, c);
  UnitResult sum{0, 0};
  double lost = 0;
  for (int part = 0; part < 2; ++part) {
    UnitBlock half;
    for (int i = 0; i < x.count; ++i) {
      if (i / 2 % 2 != part) continue;
      half.a[half.count] = x.a[i];
      half.b[half.count++] = x.b[i];
    }
    sum = unit_step(u, fa, fb, half, sum.value);
    lost += sum.lost;
  }
  const auto before = static_cast<float>(c), own = static_cast<float>(sum.value);
  const float total = before + own;
  if (!is_finite(to_double(total))) return {to_double(total), 0};
  const float of_own = total - before;  // the error of an addition is a number of the format
  const float error = (before - (total - of_own)) + (own - of_own);
  return {to_double(total), lost + abs(to_double(error))};
}

/// A factor as the unit takes it.
OPBOUND_HD inline double factor(const Format& stored, double x) {
  return stored.kind == Kind::fp32 ? truncate_to(factor_format(stored), x) : x;
}

/// |a| as an exponent that is not normalised has it: no less than the least normal number.
OPBOUND_HD inline double aligned_magnitude(const Format& f, double a) {
  return a == 0 ? 0 : max(abs(a), power_of_two(f.exponent_min));
}

/// The products that a unit takes at once.
OPBOUND_HD constexpr int at_once(const MatrixUnit& u) { return u.apart > 0 ? u.apart : u.block; }

/// Sums of k products on a unit: what every number type keeps.
template <class T>
struct UnitSum {
  T value = from<T>(0.0);

  template <class A, class B>
  OPBOUND_HD void run(const MatrixUnit&, const Format&, const Format&, std::int64_t k, A a, B b) {
    for (std::int64_t i = 0; i < k; ++i) value = value + a(i) * b(i);  // over the reals
  }
};

template <>
struct UnitSum<float> {
  float value = 0;

  template <class A, class B>
  OPBOUND_HD void run(const MatrixUnit& u, const Format& fa, const Format& fb, std::int64_t k, A a,
                      B b) {
    double c = 0;
    for (std::int64_t first = 0; first < k; first += at_once(u)) {
      UnitBlock x;
      for (; x.count < at_once(u) && first + x.count < k; ++x.count) {
        x.a[x.count] = factor(fa, to_double(a(first + x.count)));
        x.b[x.count] = factor(fb, to_double(b(first + x.count)));
      }
      c = unit_instruction(u, aligned_format(u, fa), aligned_format(u, fb), x, c).value;
    }
    value = static_cast<float>(c);
  }
};

/// fp32 factors lose their last bits: ours known ones, theirs up to 2^-10 of them, or rounded.
template <class K>
OPBOUND_HD Tracked<float, K> taken(const Format& stored, Tracked<float, K> x) {
  if (stored.kind != Kind::fp32) return x;
  const double cut = truncate_to(factor_format(stored), to_double(x));
  const double off = abs(cut - to_double(x));
  Tracked<float, K> r = x;
  r.value = static_cast<float>(cut);
  r.radius = up(x.radius + off);
  if constexpr (K::foreign) {
    const double theirs = up(0x1p-10 * x.far() + fp32.smallest_normal() * 0x1p-10);
    r.radius = up(x.radius + theirs);
    r.spread = up(x.spread + theirs + off);
  }
  return r;
}

/// Ours takes what every step cut off. Another kernel of the same unit may take the terms in any
/// order, and in up to n = ceil(k / b) parts of any sizes, whose sums it adds in fp32: a term is in
/// n steps and n - 1 additions at most. A adds up |a_i b_i|, with aligned magnitudes. A step errs
/// by
///   (b + 1) (2^-f max(|c|, |a_i b_i|) + 2^(-126 - f)) + 2^(1 - p) |result| + 2^-149
/// at most, and all parts together have less than 2 n steps, so that with G = (1 + e)^n
/// (1 + u)^(n - 1), e = (b + 1) 2^-f + 2^(1 - p):  |theirs - exact| <= A (G - 1) + 2 n tiny G.
/// Nothing is cut off from zeros: A = 0 gives 0.
///
/// Of a unit that sums 2 b products apart, n = ceil(k / 2b) is the number of such sums and the
/// largest of parts: a term is in 2 steps, then in less than n additions in its part and n - 1 of
/// parts; there are less than 2 n sums of 2 steps. G = (1 + e)^2 (1 + u)^(2 n - 2).
template <class K>
struct UnitSum<Tracked<float, K>> {
  using F = Tracked<float, K>;
  F value = from<F>(0.0);

  template <class A, class B>
  OPBOUND_HD void run(const MatrixUnit& u, const Format& fa, const Format& fb, std::int64_t k, A a,
                      B b) {
    const Format fac = aligned_format(u, fa), fbc = aligned_format(u, fb);
    double c = 0, lost = 0, handed_on = 0, handed_spread = 0, magnitudes = 0;
    for (std::int64_t first = 0; first < k; first += at_once(u)) {
      UnitBlock x;
      for (; x.count < at_once(u) && first + x.count < k; ++x.count) {
        const F p = taken(fa, a(first + x.count)), q = taken(fb, b(first + x.count));
        x.a[x.count] = to_double(p);
        x.b[x.count] = to_double(q);
        handed_on +=
            times(p.far(), q.radius) + times(q.far(), p.radius) + times(p.radius, q.radius);
        handed_spread += times(p.size(), q.spread) + times(q.far(), p.spread);
        magnitudes += (aligned_magnitude(fac, to_double(p)) + p.spread) *
                      (aligned_magnitude(fbc, to_double(q)) + q.spread);
      }
      const UnitResult step = unit_instruction(u, fac, fbc, x, c);
      c = step.value;
      lost += step.lost;
    }
    finish(u, k, c, handed_on, handed_spread, lost, magnitudes);
  }

 private:
  /// Every sum above has at most 2 k roundings of positive terms: 1 + k 2^-50 covers them.
  OPBOUND_HD void finish(const MatrixUnit& u, std::int64_t k, double c, double handed_on,
                         double handed_spread, double lost, double magnitudes) {
    const double grow = 1 + static_cast<double>(k + u.block) * 0x1p-50;
    value.value = static_cast<float>(c);
    if (!is_finite(c)) {
      value = not_finite<float, K>(value.value, false);
      return;
    }
    value.radius = up((handed_on + lost) * grow);
    if constexpr (K::foreign) {
      const std::int64_t calls = (k + at_once(u) - 1) / at_once(u);
      const auto parts = static_cast<double>(calls);
      const double steps = u.apart > 0 ? 2 : parts;
      const double additions = (u.apart > 0 ? 2 : 1) * (parts - 1);
      const double all_steps = (u.apart > 0 ? 4 : 2) * parts;
      const double addends = u.block + 1, grid = power_of_two(-u.fraction);
      const double e = addends * grid + power_of_two(1 - u.digits);
      const double tiny = addends * grid * fp32.smallest_normal() + fp32.smallest_subnormal();
      const double most = magnitudes * grow;
      const double exponent = steps * log1p(e) + additions * log1p(Facts<float>::u);
      const double rise = up(expm1(up(exponent)));
      const double theirs = most == 0 ? 0 : up(times(most, rise) + all_steps * tiny * (1 + rise));
      value.radius = up(handed_on * grow + theirs);
      value.spread = up(handed_spread * grow + theirs + lost * grow);
      if (!(most + value.radius <= fp32.largest()))
        value = not_finite<float, K>(value.value, false);
    }
  }
};

}  // namespace detail

}  // namespace opbound
