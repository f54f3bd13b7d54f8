// Masks, seeds, samples.
#include <boost/math/distributions/binomial.hpp>
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <random>
#include <set>

#include "distributed/claims/experiment.hpp"
#include "distributed/claims/op_case.hpp"
#include "distributed/train/data.hpp"
#include "distributed/train/state.hpp"
#include "ops/dropout.hpp"
#include "ops/philox.hpp"
#include "reports/error.hpp"

namespace opbound::claims {
namespace {

/// Is the element dropped, by one of the comparisons that kernels make?
bool is_dropped(const std::string& method, double p, std::uint32_t word) {
  if (method == "bf16" || method == "fp16") {  // a uniform number rounded before it is compared
    const Format f = format_of_name(method);
    return round_to(f, static_cast<double>(word) * 0x1p-32) < p;
  }
  const int bits = method == "32" ? 32 : method == "24" ? 24 : method == "16" ? 16 : 8;
  return static_cast<double>(word >> (32 - bits)) * power_of_two(-bits) < p;
}

/// Two-sided p-value of `hits` of n under a share, exact.
double binomial_p(double hits, double n, double share) {
  const boost::math::binomial law(n, share);
  const double below = boost::math::cdf(law, hits);
  const double above = hits > 0 ? boost::math::cdf(boost::math::complement(law, hits - 1)) : 1;
  return std::min(1.0, 2 * std::min(below, above));
}

double normal_p(double z) {
  return 2 * boost::math::cdf(boost::math::complement(boost::math::normal(), std::abs(z)));
}

Measured dropout_masks(const Given& given, Laboratory&) {
  const double p = given.number("p");
  const std::string method = given.text("method");
  const std::int64_t steps = given.whole("steps"), elements = given.whole("elements");
  double all = 0, early = 0, pairs = 0;
  for (std::int64_t t = 0; t < steps; ++t) {
    bool before = false;
    for (std::int64_t i = 0; i < elements; ++i) {
      const bool dropped = is_dropped(
          method, p, philox_word(1, static_cast<std::uint64_t>(t), static_cast<std::uint64_t>(i)));
      all += dropped ? 1 : 0;
      early += dropped && 2 * t < steps ? 1 : 0;
      pairs += dropped && before ? 1 : 0;
      before = dropped;
    }
  }
  const auto n = static_cast<double>(steps * elements);
  const double share = all / n, late = all - early;
  const double z = (early - late) / std::sqrt(n * share * (1 - share));
  Measured m;
  m.add("dropped", share, "share of elements that are dropped");
  m.add("share_p", binomial_p(all, n, p), "p-value of that share, if p were right");
  m.add("drift_p", normal_p(z), "p-value of the first half of the steps against the second");
  const double possible = static_cast<double>(steps * (elements - 1));
  m.add("neighbours_p", binomial_p(pairs, possible, share * share),
        "p-value of neighbours dropped together, if they were independent");
  m.add("alpha", interval_alpha, "the false-alarm rate of each test");
  return m;
}

/// Does the order in which consumers draw change what they get?
Measured draw_order(const Given& given, Laboratory&) {
  constexpr int consumers = 7, draws = 1000;
  const std::string generator = given.text("generator");
  if (generator != "counter" && generator != "sequential")
    throw InputError("", "generator '" + generator + "'", "counter or sequential");
  const auto numbers = [&](bool reversed) {
    std::vector<std::vector<std::uint32_t>> drawn(consumers);
    std::mt19937 shared(42);
    for (int k = 0; k < consumers; ++k) {
      const int who = reversed ? consumers - 1 - k : k;
      for (int i = 0; i < draws; ++i)
        drawn[static_cast<std::size_t>(who)].push_back(
            generator == "counter"
                ? philox_word(42, static_cast<std::uint64_t>(who), static_cast<std::uint64_t>(i))
                : static_cast<std::uint32_t>(shared()));
    }
    return drawn;
  };
  const auto a = numbers(false), b = numbers(true);
  double differing = 0;
  for (int k = 0; k < consumers; ++k)
    differing += a[static_cast<std::size_t>(k)] == b[static_cast<std::size_t>(k)] ? 0 : 1;
  Measured m;
  m.add("differing", differing, "of 7 consumers, those that draw other numbers in another order");
  return m;
}

/// Two ranks that take turns in an epoch's windows, one of which counts epochs `slip` too far.
Measured epoch_slip(const Given& given, Laboratory&) {
  const train::Text text(train::text_file("auto"));
  const train::Sampler sampler(text, {64, 2, 4, 1});
  const std::int64_t slip = given.whole("slip");
  std::set<std::int64_t> read, epoch;
  double twice = 0, read_count = 0;
  for (std::int64_t place = 0; place < sampler.windows(); ++place) {
    const std::int64_t rank = place % 2;
    epoch.insert(sampler.window_at(0, place));
    twice += read.insert(sampler.window_at(rank == 1 ? slip : 0, place)).second ? 0 : 1;
    read_count += 1;
  }
  double missed = 0;
  for (const std::int64_t at : epoch) missed += read.contains(at) ? 0 : 1;
  Measured m;
  m.add("twice", twice / read_count, "share of an epoch's windows that are read twice");
  m.add("missed", missed / read_count, "share that nobody reads");
  return m;
}

}  // namespace

Experiments random_experiments() {
  return {{"dropout_masks",
           "masks over many steps: their share, their drift, their neighbours",
           {{"method", std::string("32")},
            {"p", 0.1},
            {"steps", std::int64_t{4000}},
            {"elements", std::int64_t{4096}}},
           dropout_masks},
          {"draw_order",
           "seven consumers of random numbers, served in two orders",
           {{"generator", std::string("counter")}},
           draw_order},
          {"epoch_slip",
           "two ranks share an epoch's windows; one counts epochs too far",
           {{"slip", std::int64_t{1}}},
           epoch_slip}};
}

}  // namespace opbound::claims
