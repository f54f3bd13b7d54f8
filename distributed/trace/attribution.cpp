#include "distributed/trace/attribution.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "distributed/trace/attribution_replay.hpp"
#include "reports/error.hpp"

namespace opbound::trace {
namespace {

using train::Life;
using train::Ref;
using train::Step;

std::span<const TensorSpec> specs_of(const Step& step) {
  return step.spec.op->pass(step.spec.direction).tensors;
}

std::int64_t elements_of(const train::Value& v) {
  return std::accumulate(v.shape.begin(), v.shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::string from_to(const Format& from, const Format& to) {
  return std::string(name_of(from)) + ":" + std::string(name_of(to));
}

CallClass class_of(const Step& step, Pass pass) {
  const bool is_cast = step.spec.op->name == "cast";
  const Precision& p = step.spec.precision;
  return {step.part, std::string(step.spec.op->name), step.layer, pass,
          is_cast ? from_to(p.storage, p.output) : name_of(p)};
}

CallClass class_of_weight(const train::RunView& run, std::size_t p) {
  const train::ParameterSpec& parameter = run.layout.parameters()[p];
  const Format stored = format_of(run.tape.value_of(run.refs.weights[p]).element);
  return {"weight", "weight", parameter.layer, Pass::weight,
          from_to(run.spec.policy.master, stored)};
}

std::size_t place_in(std::vector<ClassContribution>& classes, const CallClass& where) {
  const auto found = std::find_if(classes.begin(), classes.end(),
                                  [&](const ClassContribution& c) { return c.where == where; });
  const auto place = static_cast<std::size_t>(found - classes.begin());
  if (found == classes.end()) {
    classes.emplace_back();
    classes.back().where = where;
  }
  ++classes[place].calls;
  return place;
}

/// What exact calls give of the run's values.
Values local_values(const ExactTape& exact, Captured& captured) {
  Values local = exact.no_values();
  const auto find = [&](int v, bool is_written) -> Tensor& {
    const auto at = static_cast<std::size_t>(v);
    if (!is_written) return captured.values[at];
    if (local[at].count() == 0) local[at] = exact.zeros(v);
    return local[at];
  };
  for (std::size_t i = 0; i < exact.calls(); ++i) exact.run(i, captured.attributes[i], find);
  return local;
}

Values exact_values(const train::RunView& run, const ExactTape& exact, Captured& captured) {
  Values values = exact.no_values();
  for (std::size_t v = 0; v < values.size(); ++v) {
    const train::Value& value = run.tape.values()[v];
    if (value.life == Life::parameter)
      values[v] = captured.master[static_cast<std::size_t>(value.parameter)];
    else if (value.life == Life::input)
      values[v] = captured.values[v];
  }
  const auto find = [&](int v, bool is_written) -> Tensor& {
    Tensor& t = values[static_cast<std::size_t>(v)];
    if (is_written && t.count() == 0) t = exact.zeros(v);
    return t;
  };
  for (std::size_t i = 0; i < exact.calls(); ++i) exact.run(i, captured.attributes[i], find);
  return values;
}

/// <a, delta> and <(a + a') / 2, delta> of views of values.
struct Products {
  double exact = 0, mean = 0;
  double variance = 0;  ///< of the mean, were delta one rounding

  /// `u`: half a unit in the last place of 1, in what the value is stored in. An error drawn evenly
  /// from [-u 2^e, u 2^e] has the variance (u 2^e)^2 / 3; with v = m 2^e and m from [1, 2) by
  /// Benford's law the mean of 1 / m^2 is 3 / (8 ln 2), so that it is (u v)^2 / (8 ln 2).
  void add(const TensorView& a, const TensorView& along_low, const TensorView& low,
           const TensorView& exact_value, double u) {
    for (std::int64_t i = 0, n = low.count(); i < n; ++i) {
      const double delta = low.at(i) - exact_value.at(i);
      if (delta == 0) continue;
      const double slope = (a.at(i) + along_low.at(i)) / 2, size = slope * low.at(i) * u;
      exact += a.at(i) * delta;
      mean += slope * delta;
      variance += size * size / (8 * std::numbers::ln2);
    }
  }
};

/// All elements of a value, in a row.
Ref whole(int value, std::int64_t count) { return {value, {count}, {1}, 0}; }

/// Fills the contributions of classes: inner products with the derivatives along both runs.
void add_products(const train::RunView& run, const ExactTape& exact, Captured& captured,
                  Values& local, Values& values, const ClassPlaces& places, Attribution& a) {
  Values along_exact = exact.adjoints(captured.attributes, values, values);
  Values along_low = exact.adjoints(captured.attributes, captured.values, local);
  std::vector<Products> products(a.classes.size());
  const auto add = [&](std::size_t place, const Ref& r, Tensor& low, Tensor& exact_value) {
    const auto v = static_cast<std::size_t>(r.value);
    if (along_exact[v].count() == 0 || !is_float(low.element())) return;
    const Format stored = format_of(run.tape.value_of(r).element);
    products[place].add(view_of(along_exact[v], r), view_of(along_low[v], r), view_of(low, r),
                        view_of(exact_value, r), std::ldexp(1, -stored.digits));
  };
  for (std::size_t p = 0; p < places.of_parameter.size(); ++p) {
    const int v = run.refs.weights[p].value;
    add(places.of_parameter[p], whole(v, captured.master[p].count()),
        captured.values[static_cast<std::size_t>(v)], captured.master[p]);
  }
  for (std::size_t i = 0; i < exact.forward_calls(); ++i) {
    const Step& step = run.tape.steps()[i];
    for (std::size_t t = 0; t < step.tensors.size(); ++t) {
      const Ref& r = step.tensors[t];
      if (!r.exists() || !specs_of(step)[t].is_judged()) continue;
      const auto v = static_cast<std::size_t>(r.value);
      add(places.of_call[i], r, captured.values[v], local[v]);
    }
  }
  for (std::size_t c = 0; c < products.size(); ++c) {
    a.classes[c].loss = products[c].mean;
    a.classes[c].loss_exact = products[c].exact;
    a.classes[c].loss_expected = std::sqrt(products[c].variance);
  }
}

}  // namespace

double rank_correlation(const std::vector<double>& a, const std::vector<double>& b) {
  detail::require(a.size() == b.size(), "ranks are of pairs");
  const auto ranks = [](const std::vector<double>& x) {
    std::vector<std::size_t> order(x.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t i, std::size_t j) { return x[i] < x[j]; });
    std::vector<double> rank(x.size());
    for (std::size_t first = 0; first < order.size();) {
      std::size_t last = first;
      while (last + 1 < order.size() && x[order[last + 1]] == x[order[first]]) ++last;
      for (std::size_t i = first; i <= last; ++i)
        rank[order[i]] = static_cast<double>(first + last) / 2;
      first = last + 1;
    }
    return rank;
  };
  const std::vector<double> ra = ranks(a), rb = ranks(b);
  const double mean = (static_cast<double>(a.size()) - 1) / 2;
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += (ra[i] - mean) * (rb[i] - mean);
    aa += (ra[i] - mean) * (ra[i] - mean);
    bb += (rb[i] - mean) * (rb[i] - mean);
  }
  if (aa == 0 && bb == 0) return 1;
  return aa == 0 || bb == 0 ? 0 : ab / std::sqrt(aa * bb);
}

std::int64_t attribution_bytes(const ExactTape& exact, bool with_replay) {
  std::int64_t all = 0, forward = 0, parameters = 0;
  std::vector<bool> is_forward(exact.tape().values().size());
  for (std::size_t i = 0; i < exact.forward_calls(); ++i)
    for (const Ref& r : exact.tape().steps()[i].tensors)
      if (r.exists()) is_forward[static_cast<std::size_t>(r.value)] = true;
  for (std::size_t v = 0; v < is_forward.size(); ++v) {
    const train::Value& value = exact.tape().values()[v];
    all += elements_of(value);
    if (is_forward[v]) forward += elements_of(value);
    if (value.life == Life::parameter) parameters += elements_of(value);
  }
  const std::int64_t passing = std::max(2 * forward, with_replay ? all + parameters : 0);
  return 8 * (3 * all + 2 * parameters + passing + (with_replay ? 8 * parameters : 0));
}

Attribution attribute(const train::RunView& run, const ExactTape& exact, Captured& captured,
                      bool with_replay, GradientVectors* vectors) {
  Attribution a;
  a.step = captured.step;
  a.micro_batch = captured.micro_batch;
  a.changed = captured.changed;
  a.first_changed = captured.first_changed;
  const auto loss = static_cast<std::size_t>(exact.loss());
  a.loss = captured.values[loss].at(0);
  if (!std::isfinite(a.loss))
    throw InputError("attribute",
                     "step " + std::to_string(a.step) + ", micro-batch " +
                         std::to_string(a.micro_batch) + ": its loss is not finite",
                     "a step before it");
  Values local = local_values(exact, captured);
  Values values = exact_values(run, exact, captured);
  a.loss_exact = values[loss].at(0);

  std::vector<std::size_t> class_of_call(exact.calls());
  std::vector<std::size_t> class_of_parameter(run.refs.weights.size());
  for (std::size_t p = 0; p < class_of_parameter.size(); ++p)
    class_of_parameter[p] = place_in(a.classes, class_of_weight(run, p));
  for (std::size_t i = 0; i < exact.calls(); ++i)
    class_of_call[i] = place_in(
        a.classes,
        class_of(run.tape.steps()[i], i < exact.forward_calls() ? Pass::forward : Pass::backward));
  const ClassPlaces places{class_of_call, class_of_parameter};
  add_products(run, exact, captured, local, values, places, a);
  double squares = 0;
  for (const ClassContribution& c : a.classes) {
    a.predicted += c.loss;
    a.predicted_exact += c.loss_exact;
    squares += c.loss * c.loss;
  }
  a.root_of_squares = std::sqrt(squares);
  const Trajectories trajectories{exact, captured.attributes, captured.values, local, values};
  GradientVectors made;
  replay_classes(run, trajectories, places, with_replay, a, vectors == nullptr ? made : *vectors);
  return a;
}

}  // namespace opbound::trace
