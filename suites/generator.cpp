#include "suites/generator.hpp"

#include <array>
#include <charconv>

#include "ops/number.hpp"
#include "reports/error.hpp"

namespace opbound::detail {

double standard_normal(const PhiloxCounter& words) {
  // An odd multiple of 2^-53 is neither 0 nor 1: the logarithm is finite.
  const double u = static_cast<double>(2 * (join(words[0], words[1]) >> 12) + 1) * 0x1p-53;
  constexpr double two_pi = 0x1.921fb54442d18p+2;
  return sqrt(-2 * log(u)) * cos(two_pi * unit_interval(join(words[2], words[3])));
}

std::string text_of(double x) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), x).ptr;
  return {text.data(), end};
}

void require_between(std::string_view parameter, double x, double low, double high) {
  if (low <= x && x <= high) return;
  throw InputError("", std::string(parameter) + " = " + text_of(x),
                   "a number from " + text_of(low) + " to " + text_of(high));
}

void require_whole(std::string_view parameter, double x, int low, int high) {
  if (low <= x && x <= high && static_cast<int>(x) == x) return;
  throw InputError("", std::string(parameter) + " = " + text_of(x),
                   "a whole number from " + std::to_string(low) + " to " + std::to_string(high));
}

}  // namespace opbound::detail
