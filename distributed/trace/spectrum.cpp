#include "distributed/trace/spectrum.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/hash.hpp"

namespace opbound::trace {
namespace {

constexpr std::int64_t most_columns = 16;
constexpr int iterations = 2;
constexpr int most_sweeps = 60;  // of Jacobi's method, which needs about 6

/// Columns one after the other.
struct Columns {
  std::int64_t length = 0, count = 0;
  std::vector<double> data;

  Columns(std::int64_t l, std::int64_t c)
      : length(l), count(c), data(static_cast<std::size_t>(l * c)) {}
  double* column(std::int64_t c) { return data.data() + c * length; }
  const double* column(std::int64_t c) const { return data.data() + c * length; }
};

double dot(const double* a, const double* b, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

/// Gram and Schmidt's method, twice; a column that the others span becomes 0.
void orthonormalize(Columns& q) {
  for (std::int64_t c = 0; c < q.count; ++c) {
    double* const x = q.column(c);
    const double before = std::sqrt(dot(x, x, q.length));
    for (int pass = 0; pass < 2; ++pass)
      for (std::int64_t k = 0; k < c; ++k) {
        const double share = dot(q.column(k), x, q.length);
        for (std::int64_t i = 0; i < q.length; ++i) x[i] -= share * q.column(k)[i];
      }
    const double norm = std::sqrt(dot(x, x, q.length));
    // What is left is rounding: fp64's unit roundoff for each of the terms.
    const bool is_spanned = norm <= before * static_cast<double>(q.length) * 0x1p-52;
    for (std::int64_t i = 0; i < q.length; ++i) x[i] = is_spanned ? 0 : x[i] / norm;
  }
}

struct Matrix {
  std::int64_t rows = 0, columns = 0;
  std::vector<double> data;  ///< row-major

  const double* row(std::int64_t r) const { return data.data() + r * columns; }

  /// G x for each column x.
  Columns times(const Columns& x) const {
    Columns y(rows, x.count);
    for (std::int64_t c = 0; c < x.count; ++c)
      for (std::int64_t r = 0; r < rows; ++r) y.column(c)[r] = dot(row(r), x.column(c), columns);
    return y;
  }
  /// G^T y for each column y.
  Columns transposed_times(const Columns& y) const {
    Columns x(columns, y.count);
    for (std::int64_t c = 0; c < y.count; ++c)
      for (std::int64_t r = 0; r < rows; ++r) {
        const double factor = y.column(c)[r];
        for (std::int64_t k = 0; k < columns; ++k) x.column(c)[k] += factor * row(r)[k];
      }
    return x;
  }
};

/// Squares of the singular values of a few columns: Hestenes' one-sided Jacobi method (1958).
std::vector<double> squared_values(Columns b) {
  for (int sweep = 0; sweep < most_sweeps; ++sweep) {
    bool has_turned = false;
    for (std::int64_t i = 0; i < b.count; ++i)
      for (std::int64_t j = i + 1; j < b.count; ++j) {
        double *x = b.column(i), *y = b.column(j);
        const double xx = dot(x, x, b.length), yy = dot(y, y, b.length), xy = dot(x, y, b.length);
        if (std::abs(xy) <= 0x1p-50 * std::sqrt(xx * yy)) continue;
        has_turned = true;
        const double zeta = (yy - xx) / (2 * xy);
        const double t = std::copysign(1 / (std::abs(zeta) + std::hypot(1, zeta)), zeta);
        const double cosine = 1 / std::hypot(1, t), sine = cosine * t;
        for (std::int64_t k = 0; k < b.length; ++k) {
          const double left = x[k], right = y[k];
          x[k] = cosine * left - sine * right;
          y[k] = sine * left + cosine * right;
        }
      }
    if (!has_turned) break;
  }
  std::vector<double> values;
  for (std::int64_t c = 0; c < b.count; ++c)
    values.push_back(dot(b.column(c), b.column(c), b.length));
  std::sort(values.begin(), values.end(), std::greater<>());
  return values;
}

/// Scaled by a power of two so that squares neither overflow nor vanish; the shares stay.
Matrix scaled(const Tensor& gradient) {
  const Shape& shape = gradient.shape();
  Matrix g{shape[0], shape[1], gradient.values()};
  double largest = 0;
  for (const double x : g.data)
    largest = std::isfinite(x) ? std::max(largest, std::abs(x)) : HUGE_VAL;
  if (largest == 0 || largest == HUGE_VAL) return {};
  const int exponent = std::ilogb(largest);
  for (double& x : g.data) x = std::ldexp(x, -exponent);
  return g;
}

}  // namespace

std::vector<double> largest_shares(const Tensor& gradient, std::uint64_t seed) {
  const Matrix g = scaled(gradient);
  if (g.data.empty()) return {};
  const std::int64_t least = std::min(g.rows, g.columns), count = std::min(least, most_columns);
  Columns start(g.columns, count);
  for (std::size_t i = 0; i < start.data.size(); ++i)  // in [-1, 1)
    start.data[i] =
        std::ldexp(static_cast<double>(element_hash(static_cast<std::int64_t>(i), seed) >> 11),
                   -52) -
        1;
  Columns q = g.times(start);
  orthonormalize(q);
  for (int i = 0; i < iterations; ++i) {
    Columns x = g.transposed_times(q);
    orthonormalize(x);
    q = g.times(x);
    orthonormalize(q);
  }
  std::vector<double> shares = squared_values(g.transposed_times(q));
  const double all = std::accumulate(g.data.begin(), g.data.end(), 0.0,
                                     [](double sum, double x) { return sum + x * x; });
  for (double& share : shares) share /= all;
  shares.resize(static_cast<std::size_t>(std::min<std::int64_t>(count, largest_values)));
  return shares;
}

}  // namespace opbound::trace
