// Generators of integers and booleans: labels, token ids, masks.
#include <array>

#include "ops/number.hpp"
#include "reports/error.hpp"
#include "suites/generator.hpp"

namespace opbound {
namespace {

using namespace detail;
using Parameters = std::span<const double>;

constexpr double largest_whole = 0x1p53;

// ---- indices below a size

void check_index(Parameters p, const Format&) {
  require_between("ignored", p[0], 0, 1);
  require_between("ignore_value", p[1], -largest_whole, largest_whole);
}
/// Uniform below the size: the high half of a 64-bit product (bias below size 2^-64).
double index(const Place& p) {
  const PhiloxCounter w = p.words();
  if (unit_interval(join(w[2], w[3])) < p.parameters[0]) return p.parameters[1];
  const auto product = static_cast<unsigned __int128>(join(w[0], w[1])) * p.below;
  return static_cast<double>(static_cast<std::uint64_t>(product >> 64));
}

void check_same(Parameters p, const Format&) {
  require_between("value", p[0], -largest_whole, largest_whole);
}
double same(const Place& p) { return p.parameters[0]; }

double counting(const Place& p) {
  return static_cast<double>(p.below == 0 ? 0 : p.index % p.below);
}

void check_zipf(Parameters p, const Format&) { require_between("sigma", p[0], 0.01, 1000); }
/// Inverse transform of the density x^-(1 + 1/sigma) on x >= 1, its floor as a rank: token counts
/// fall off as in text.
double zipf(const Place& p) {
  if (p.below == 0) return 0;
  const PhiloxCounter w = p.words();
  const double u = unit_interval(join(w[0], w[1])) + 0x1p-54;
  const double rank = exp(-p.parameters[0] * log(u)) - 1;
  return rank < static_cast<double>(p.below) ? static_cast<double>(static_cast<std::int64_t>(rank))
                                             : static_cast<double>(p.below - 1);
}

// ---- masks

void check_mask(Parameters p, const Format&) {
  require_between("p", p[0], 0, 1);
  require_between("empty_rows", p[1], 0, 1);
}
double mask(const Place& p) {
  const PhiloxCounter row = p.words_of(p.row() + (std::uint64_t{1} << 63));
  if (unit_interval(join(row[0], row[1])) < p.parameters[1]) return 0;
  const PhiloxCounter w = p.words();
  return unit_interval(join(w[0], w[1])) < p.parameters[0] ? 1 : 0;
}

constexpr std::array table{
    Generator{{"index", "ignored=0 ignore_value=-100",
               "uniform below the size; a share of them is ignore_value", Domain::indices},
              check_index,
              index},
    Generator{{"same_index", "value=0", "one index everywhere", Domain::indices}, check_same, same},
    Generator{{"counting", "", "0, 1, 2, ... below the size, again and again", Domain::indices},
              [](Parameters, const Format&) {},
              counting},
    Generator{{"zipf", "sigma=1", "small indices far more often than large ones, as in text",
               Domain::indices},
              check_zipf,
              zipf},
    Generator{{"mask", "p=0.5 empty_rows=0",
               "true with probability p; a share of rows is false throughout", Domain::booleans},
              check_mask,
              mask}};

}  // namespace

std::span<const Generator> detail::index_generators() { return table; }

}  // namespace opbound
