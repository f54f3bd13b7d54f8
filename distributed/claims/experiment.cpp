#include "distributed/claims/experiment.hpp"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <iterator>
#include <limits>
#include <sstream>

namespace opbound::claims {

void Measured::add(std::string name, double value, std::string what, std::string unit) {
  figures.push_back({std::move(name), value, value, value, std::move(unit), std::move(what)});
}

void Measured::add_mean(std::string name, std::span<const double> samples, std::string what,
                        std::string unit) {
  const auto n = static_cast<double>(samples.size());
  detail::require(samples.size() >= 2, "a mean has samples");
  double mean = 0, squares = 0;
  for (const double x : samples) mean += x / n;
  for (const double x : samples) squares += (x - mean) * (x - mean);
  const double error = std::sqrt(squares / (n - 1) / n);
  const double t = boost::math::quantile(
      boost::math::complement(boost::math::students_t(n - 1), interval_alpha / 2));
  const bool same =
      std::all_of(samples.begin(), samples.end(), [&](double x) { return x == samples.front(); });
  if (same) return add(std::move(name), samples.front(), std::move(what), std::move(unit));
  figures.push_back({std::move(name), mean, mean - t * error, mean + t * error, std::move(unit),
                     std::move(what)});
}

std::vector<std::string> Given::words(std::string_view name) const {
  std::istringstream stream(text(name));
  return {std::istream_iterator<std::string>(stream), {}};
}

std::span<const Experiment> all_experiments() {
  static const Experiments all = [] {
    Experiments list;
    for (Experiments (*of)() :
         {arithmetic_experiments, format_experiments, operator_experiments, collective_experiments,
          random_experiments, training_experiments, monitor_experiments, record_experiments})
      for (Experiment& e : of()) list.push_back(std::move(e));
    return list;
  }();
  return all;
}

const Experiment* find_experiment(std::string_view name) {
  for (const Experiment& e : all_experiments())
    if (e.name == name) return &e;
  return nullptr;
}

}  // namespace opbound::claims
