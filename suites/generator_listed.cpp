// Generators that list values in order, repeated to fill the tensor.
#include <array>
#include <cstring>

#include "ops/number.hpp"
#include "reports/error.hpp"
#include "suites/generator.hpp"

namespace opbound {
namespace {

using namespace detail;
using Parameters = std::span<const double>;

void check_nothing(Parameters, const Format&) {}

void check_patterns(Parameters, const Format& f) {
  if (f.bits() > 16)
    throw InputError("", "every pattern of " + std::string(name_of(f)), "a 16-bit or 8-bit format");
}

/// As bits, so that every NaN is among them.
void fill_every_pattern(Tensor& tensor, const InputSpec&) {
  const auto width = static_cast<std::size_t>(bytes_of(tensor.element()));
  std::byte* to = tensor.bytes().data();
  for (std::uint64_t i = 0, n = tensor.bytes().size() / width; i < n; ++i)
    std::memcpy(to + i * width, &i, width);  // the low bytes of i
}

/// Magnitudes in order, then the negative ones.
double finite_pattern(const Place& p) {
  const std::uint64_t magnitudes = encode(p.format, p.format.largest()) + 1;
  const std::uint64_t place = p.index % (2 * magnitudes);
  const double magnitude = decode(p.format, place % magnitudes);
  return place < magnitudes ? magnitude : -magnitude;
}

double constant_value(const Place& p) { return p.parameters[0]; }

/// The finite special values, then inf, -inf (where the format has them) and NaN.
double special_value(const Format& f, std::uint64_t place) {
  const std::array<double, 8> all{0,
                                  f.smallest_subnormal(),
                                  f.smallest_normal() - f.smallest_subnormal(),
                                  f.smallest_normal(),
                                  1,
                                  f.largest(),
                                  infinity,
                                  not_a_number};
  const double magnitude = all[place / 2];
  return place % 2 == 0 ? magnitude : -magnitude;
}
constexpr std::uint64_t finite_specials = 12;

double finite_special(const Place& p) { return special_value(p.format, p.index % finite_specials); }
double special(const Place& p) {
  const std::uint64_t infinities = p.format.has_infinity() ? 2 : 0;
  const std::uint64_t place = p.index % (finite_specials + infinities + 1);
  return special_value(p.format, place == finite_specials + infinities ? 14 : place);
}

constexpr std::array table{
    Generator{{"every_pattern", "", "all bit patterns in order; 16-bit and 8-bit formats"},
              check_patterns,
              nullptr,
              fill_every_pattern},
    Generator{
        {"finite_patterns", "",
         "all finite values, positive ones in order, then negative; 16-bit and 8-bit formats"},
        check_patterns,
        finite_pattern},
    Generator{{"constant", "value=0", "one value"}, check_nothing, constant_value},
    Generator{
        {"special", "",
         "0, smallest and largest subnormal, smallest normal, 1, largest, inf, each with both "
         "signs, NaN"},
        check_nothing,
        special},
    Generator{
        {"finite_special", "", "special without inf and NaN"}, check_nothing, finite_special}};

}  // namespace

std::span<const Generator> detail::listed_generators() { return table; }

}  // namespace opbound
