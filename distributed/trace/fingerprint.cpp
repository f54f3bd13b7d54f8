#include "distributed/trace/fingerprint.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "ops/hash.hpp"

namespace opbound::trace {
namespace {

constexpr std::int64_t rows_of_a_block = block_elements / sketch_width;

struct Row {
  std::uint64_t signs = 0;  ///< bit e: element e is subtracted
  int rotation = 0;
};

Row row_of(std::uint64_t key, std::int64_t row) {
  const std::uint64_t signs = element_hash(row, key);
  return {signs, static_cast<int>(element_hash(row, signs) % sketch_width)};
}

/// Lane l takes one element of each row: the one that its bucket of the sketch gets.
struct Lanes {
  std::array<double, sketch_width> sum{}, square{}, sketch{};
};

/// Elements of one row, each at its lane, and with its sign.
struct Turned {
  std::array<double, sketch_width> plain{}, with_sign{};
};

/// What is not there, or not finite, is 0.
Turned turned(const Row& r, const std::array<double, sketch_width>& row) {
  Turned t;
  std::array<double, sketch_width> with_sign;
  for (std::size_t e = 0; e < sketch_width; ++e)
    with_sign[e] =
        std::bit_cast<double>(std::bit_cast<std::uint64_t>(row[e]) ^ ((r.signs >> e & 1U) << 63U));
  const auto turn = [&](const std::array<double, sketch_width>& from,
                        std::array<double, sketch_width>& to) {
    std::rotate_copy(from.begin(), from.end() - r.rotation, from.end(), to.begin());
  };
  turn(row, t.plain);
  turn(with_sign, t.with_sign);
  return t;
}

/// Elements [begin, end) of a parameter within one block, read by `at`.
template <class At>
GradientSums block_sums(std::uint64_t key, std::int64_t begin, std::int64_t end, At at) {
  GradientSums all;
  all.count = end - begin;
  Lanes lanes;
  for (std::int64_t row = begin / sketch_width; row * sketch_width < end; ++row) {
    const std::int64_t first = row * sketch_width;
    std::array<double, sketch_width> g{};
    double faults = 0;  // x - x is 0 of what is finite
    const std::int64_t last = std::min(sketch_width, end - first);
    for (std::int64_t e = std::max<std::int64_t>(0, begin - first); e < last; ++e) {
      g[static_cast<std::size_t>(e)] = at(first + e);
      faults += g[static_cast<std::size_t>(e)] - g[static_cast<std::size_t>(e)];
    }
    if (faults != 0)
      for (double& x : g)
        if (!std::isfinite(x)) {
          ++all.nonfinite;
          x = 0;
        }
    const Turned t = turned(row_of(key, row), g);
    for (std::size_t l = 0; l < sketch_width; ++l) {
      lanes.sum[l] += t.plain[l];
      lanes.square[l] += t.plain[l] * t.plain[l];
      lanes.sketch[l] += t.with_sign[l];
    }
  }
  for (std::size_t l = 0; l < sketch_width; ++l) {
    all.sum += lanes.sum[l];
    all.square += lanes.square[l];
  }
  all.sketch = lanes.sketch;
  return all;
}

template <class At>
GradientSums all_sums(std::uint64_t key, std::int64_t first, std::int64_t count, At at) {
  GradientSums all;
  for (std::int64_t begin = first; begin < first + count;) {
    const std::int64_t end = std::min(first + count, (begin / block_elements + 1) * block_elements);
    all += block_sums(key, begin, end, at);
    begin = end;
  }
  return all;
}

/// A power of two that takes the largest number to 1 or so: its square neither overflows nor
/// vanishes. 1 of zeros.
double scale_of(std::span<const double> a) {
  double largest = 0;
  for (const double x : a) largest = std::max(largest, std::abs(x));
  if (largest == 0 || !std::isfinite(largest)) return 1;
  return std::ldexp(1, std::min(-std::ilogb(largest), 1000));  // 2^1074 is none
}

double dot(std::span<const double> a, std::span<const double> b, double x, double y) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] * x) * (b[i] * y);
  return sum;
}

}  // namespace

static_assert(rows_of_a_block * sketch_width == block_elements);

GradientSums& GradientSums::operator+=(const GradientSums& part) {
  count += part.count;
  nonfinite += part.nonfinite;
  sum += part.sum;
  square += part.square;
  hash += part.hash;
  for (std::size_t l = 0; l < sketch_width; ++l) sketch[l] += part.sketch[l];
  return *this;
}

double GradientSums::norm() const { return std::sqrt(square); }

double GradientSums::mean() const {
  return count > nonfinite ? sum / static_cast<double>(count - nonfinite) : 0;
}

double GradientSums::standard_error() const {
  const auto n = static_cast<double>(count - nonfinite);
  if (n < 2) return 0;
  return std::sqrt(std::max(0.0, square / n - mean() * mean()) / (n - 1));
}

std::uint64_t sketch_key(std::string_view parameter) {
  std::uint64_t key = 0;
  for (std::size_t i = 0; i < parameter.size(); ++i)
    key += element_hash(static_cast<std::int64_t>(i), static_cast<unsigned char>(parameter[i]));
  return key;
}

GradientSums sums_of(std::uint64_t key, std::int64_t first, std::int64_t count, Element element,
                     const void* data) {
  GradientSums all;
  if (element == Element::fp32) {  // most gradients are
    const auto read = [&](std::int64_t i) { return detail::read_element<float>(data, i - first); };
    all = all_sums(key, first, count, [&](std::int64_t i) { return static_cast<double>(read(i)); });
    for (std::int64_t i = first; i < first + count; ++i) {
      const float x = read(i);
      all.hash += element_hash(
          i, x == x ? std::bit_cast<std::uint32_t>(x) : encode(fp32, static_cast<double>(x)));
    }
    return all;
  }
  all = all_sums(key, first, count, [&](std::int64_t i) { return load(element, data, i - first); });
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): it only reads.
  const TensorView view = contiguous_view(element, {count}, const_cast<void*>(data));
  for (std::int64_t i = 0; i < count; ++i)
    all.hash += element_hash(first + i, canonical_bits(view, i));
  return all;
}

double cosine(std::span<const double> a, std::span<const double> b) {
  const double x = scale_of(a), y = scale_of(b);
  const double aa = dot(a, a, x, x), bb = dot(b, b, y, y);
  if (aa == 0 && bb == 0) return 1;
  if (aa == 0 || bb == 0) return 0;
  return dot(a, b, x, y) / std::sqrt(aa * bb);
}

double distance(std::span<const double> a, std::span<const double> b) {
  const double scale = std::min(scale_of(a), scale_of(b));
  double square = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = a[i] * scale - b[i] * scale;
    square += d * d;
  }
  const double larger = std::max(dot(a, a, scale, scale), dot(b, b, scale, scale));
  if (!std::isfinite(larger) || !std::isfinite(square))
    return std::ranges::equal(a, b) ? 0 : HUGE_VAL;
  return larger > 0 ? std::sqrt(square / larger) : 0;
}

}  // namespace opbound::trace
