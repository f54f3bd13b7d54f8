#include "distributed/trace/gradient_check.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "bounds/tracked.hpp"
#include "ops/hash.hpp"
#include "ops/parallel.hpp"

namespace opbound::trace {

void add_sign_sums(const train::Layout& layout, const train::Range& part, const std::byte* flat,
                   Element element, std::uint64_t seed, std::vector<SignSums>& sums) {
  const std::size_t parameters = layout.parameters().size();
  sums.resize(parameters, SignSums{});
  parallel_for(static_cast<std::int64_t>(parameters), layout.count(), [&](std::int64_t p) {
    const train::Range& all = layout.parameter(static_cast<std::size_t>(p));
    const std::int64_t begin = std::max(all.begin, part.begin), end = std::min(all.end, part.end);
    SignSums own{};
    for (std::int64_t i = begin; i < end; ++i) {
      const double x = load(element, flat, i - part.begin);
      const std::uint64_t signs = element_hash(i, seed);
      for (std::size_t v = 0; v < quick_check_vectors; ++v)
        own[v] += (signs >> v & 1) != 0 ? -x : x;
      own[quick_check_vectors] += std::fabs(x);
    }
    for (std::size_t v = 0; v < own.size(); ++v) sums[static_cast<std::size_t>(p)][v] += own[v];
  });
}

MeanBound::MeanBound(const train::Policy& policy, std::int64_t terms) {
  const Format wire = policy.reduction, kept = policy.gradient;
  const bool is_wide = wire == fp64 || kept == fp64;
  const double u_compute = (is_wide ? fp64 : fp32).unit_roundoff();
  const double u_store = std::max(wire.unit_roundoff(), kept.unit_roundoff());
  const double eta = std::max({wire.eta(), kept.eta(), (is_wide ? fp64 : fp32).eta()});
  const auto m = static_cast<double>(terms);
  // log1p and expm1 err by a few 2^-53 relative: far below one more power of 1 + u_store
  const double log_growth = (m + 1) * std::log1p(u_compute) + (m + 4) * std::log1p(u_store);
  relative = detail::up(std::expm1(log_growth));
  absolute = detail::up((2 * m + 2) * eta * (1 + relative));
  largest = std::min(wire.largest(), kept.largest());
}

MeanFit fit_of(const SignSums& mean, const SignSums& sum_of_terms, double elements,
               std::int64_t terms, const MeanBound& bound) {
  MeanFit fit;
  const auto m = static_cast<double>(terms);
  const double size = sum_of_terms[quick_check_vectors], of_mean = mean[quick_check_vectors];
  const double fp64_error = (elements + m) * 0x1p-52 * (size / m + of_mean);
  fit.bound = bound.relative * size / m + elements * bound.absolute + fp64_error;
  if (!std::isfinite(size)) {  // a term is not finite: nor is the mean
    fit.fits = !std::isfinite(of_mean);
    fit.got = of_mean;
    fit.expected = size;
    return fit;
  }
  if (!std::isfinite(of_mean)) {
    fit.fits = size * (1 + bound.relative) > bound.largest;  // then a partial sum may overflow
    fit.got = of_mean;
    fit.expected = size / m;
    return fit;
  }
  for (std::size_t v = 0; v < quick_check_vectors; ++v) {
    const double expected = sum_of_terms[v] / m, difference = std::fabs(mean[v] - expected);
    if (difference <= fit.bound) continue;
    if (!fit.fits && difference <= std::fabs(fit.got - fit.expected)) continue;
    fit.fits = false;
    fit.vector = v;
    fit.got = mean[v];
    fit.expected = expected;
  }
  return fit;
}

std::vector<double> gathered(Collectives& ranks, const std::vector<double>& own) {
  const std::vector<std::byte> bytes = ranks.gather(std::as_bytes(std::span(own)));
  std::vector<double> all(bytes.size() / sizeof(double));
  std::memcpy(all.data(), bytes.data(), bytes.size());
  return all;
}

std::vector<std::string> gathered_texts(Collectives& ranks, const std::string& own) {
  const std::vector<double> sizes = gathered(ranks, {static_cast<double>(own.size())});
  const auto most = static_cast<std::size_t>(*std::max_element(sizes.begin(), sizes.end()));
  if (most == 0) return std::vector<std::string>(sizes.size());
  std::string text = own;
  text.resize(most, ' ');
  const std::vector<std::byte> all = ranks.gather(std::as_bytes(std::span(text)));
  std::vector<std::string> texts;
  for (std::size_t r = 0; r < sizes.size(); ++r) {
    const char* const first = reinterpret_cast<const char*>(all.data()) + r * text.size();
    texts.emplace_back(first, first + static_cast<std::size_t>(sizes[r]));
  }
  return texts;
}

}  // namespace opbound::trace
