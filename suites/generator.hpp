// Inside the input generators: what a generator sees of an element, and the list of them all.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "ops/format.hpp"
#include "ops/philox.hpp"
#include "ops/tensor.hpp"
#include "suites/fnv1a.hpp"
#include "suites/input.hpp"

namespace opbound::detail {

/// A stream's name hashed: Philox's offset.
constexpr std::uint64_t stream_of(std::string_view name) {
  Fnv1a hash;
  for (const char c : name) hash.take(static_cast<std::uint8_t>(c));
  return hash.value;
}

/// One element, and all that its value may depend on.
struct Place {
  Format format;
  std::span<const double> parameters;  ///< in the order of GeneratorInfo
  std::uint64_t row_length = 1;
  std::uint64_t seed = 0, stream = 0;
  std::uint64_t index = 0;  ///< row-major
  std::uint64_t below = 0;  ///< of an index tensor: the size that bounds it

  std::uint64_t row() const { return index / row_length; }
  std::uint64_t column() const { return index % row_length; }

  /// The 128 random bits of element `at`: no two elements share them, nor two seeds or streams.
  PhiloxCounter words_of(std::uint64_t at) const {
    const auto low = [](std::uint64_t v) { return static_cast<std::uint32_t>(v); };
    const auto high = [](std::uint64_t v) { return static_cast<std::uint32_t>(v >> 32); };
    return philox({low(at), high(at), low(stream), high(stream)}, {low(seed), high(seed)});
  }
  PhiloxCounter words() const { return words_of(index); }
};

/// 64 random bits.
constexpr std::uint64_t join(std::uint32_t high, std::uint32_t low) {
  return std::uint64_t{high} << 32 | low;
}

/// Uniform on the multiples of 2^-53 in [0, 1).
constexpr double unit_interval(std::uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

/// x or -x, by the word's first bit.
constexpr double with_random_sign(double x, std::uint32_t word) { return word >> 31 ? -x : x; }

/// Uniform on the significands 2^(digits - 1) ... 2^digits - 1 of a format.
constexpr std::uint64_t random_significand(const Format& f, std::uint64_t bits) {
  return (std::uint64_t{1} << 63 | bits >> 1) >> (64 - f.digits);
}

/// A standard normal value made of four words: exact in distribution up to the grid of its uniform
/// numbers (Box and Muller 1958); |z| <= sqrt(2 * 53 ln 2) < 8.6.
double standard_normal(const PhiloxCounter& words);

/// The shortest decimal that is read back as x.
std::string text_of(double x);

/// InputError unless low <= x <= high.
void require_between(std::string_view parameter, double x, double low, double high);

/// InputError unless x is a whole number from low to high.
void require_whole(std::string_view parameter, double x, int low, int high);

/// A kind of input. One of `value` and `fill` is set.
struct Generator {
  GeneratorInfo info;
  /// InputError where the parameters, or the format, do not suit.
  void (*check)(std::span<const double> parameters, const Format& format) = nullptr;
  double (*value)(const Place& place) = nullptr;
  void (*fill)(Tensor& tensor, const InputSpec& spec) = nullptr;
};

std::span<const Generator> random_generators();
std::span<const Generator> row_generators();
std::span<const Generator> listed_generators();
std::span<const Generator> index_generators();
std::span<const Generator> file_generators();

}  // namespace opbound::detail
