// Formats, conversions between them, scales that are multiplied in and divided out again.
#include <algorithm>
#include <bit>
#include <cmath>

#include "distributed/claims/experiment.hpp"
#include "distributed/claims/op_case.hpp"
#include "distributed/train/initial.hpp"
#include "distributed/train/model.hpp"

namespace opbound::claims {
namespace {

/// Of as many exponents as normal numbers have.
int exponent_bits(const Format& f) {
  return std::bit_width(static_cast<unsigned>(f.exponent_max - f.exponent_min));
}

Measured format_table(const Given& given, Laboratory&) {
  const Format a = format_of_name(given.text("format")), b = format_of_name(given.text("against"));
  Measured m;
  m.add("exponent_bits", exponent_bits(a), "bits of the exponent", "bits");
  m.add("exponent_bits_more", exponent_bits(a) - exponent_bits(b),
        "and how many more they are than the other format's", "bits");
  m.add("digits", a.digits, "significant digits, the hidden one included", "bits");
  m.add("smallest_normal", a.smallest_normal(), "smallest normal number");
  m.add("smallest_positive", a.smallest_subnormal(), "smallest number above 0");
  m.add("largest", a.largest(), "largest number");
  return m;
}

bool same_bits(double a, double b) { return (std::isnan(a) && std::isnan(b)) || a == b; }

Measured round_trip(const Given& given, Laboratory&) {
  const Format narrow = format_of_name(given.text("narrow")),
               wide = format_of_name(given.text("wide"));
  Measured m;
  double changed = 0, overflowing = 0;
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << narrow.bits(); ++bits) {
    const double x = decode(narrow, bits);
    changed += same_bits(round_to(narrow, round_to(wide, x)), x) ? 0 : 1;
  }
  m.add("changed", changed,
        "bit patterns of the narrow format that change on the way to the wide one and back");
  double count = 0, lost = 0, largest = 0;
  for (const train::ParameterSpec& p : parameters_of(train::model_named("nano"))) {
    std::int64_t elements = 1;
    for (const std::int64_t axis : p.shape) elements *= axis;
    std::vector<double> weights(static_cast<std::size_t>(elements));
    fill_initial(p, 1, weights);
    for (double& w : weights) {
      w = round_to(wide, w);
      const double there = round_to(narrow, w);
      if (w == 0) continue;
      count += 1;
      lost += there == w ? 0 : 1;
      if (std::abs(w) < narrow.smallest_normal()) continue;
      overflowing += std::isinf(there) ? 1 : 0;
      largest = std::max(largest, std::abs(there - w) / std::abs(w));
    }
  }
  const double u = narrow.unit_roundoff();
  m.add("weights_changed", lost / count,
        "share of a model's initial weights that change on the way to the narrow format and back");
  m.add("weights_error", largest / (u / (1 + u)),
        "the largest relative change of a normal weight, in units of u / (1 + u)");
  m.add("weights_overflowing", overflowing, "weights that become infinite");
  return m;
}

Measured stored_constant(const Given& given, Laboratory&) {
  const Format format = format_of_name(given.text("format"));
  const double value = given.number("value"), stored = round_to(format, value);
  Measured m;
  m.add("stored", stored, "what the format makes of it");
  m.add("relative_change", (stored - value) / value, "stored - value, relative to the value");
  m.add("subnormal", std::abs(stored) < format.smallest_normal() ? 1 : 0,
        "1: it has fewer digits than the format's normal numbers, or none");
  return m;
}

/// Mean relative errors of unscaled gradients: of the division alone, and of the gradient itself,
/// which was scaled and stored before.
struct UnscalingErrors {
  double division = 0, trip = 0;
};

UnscalingErrors unscaling_errors(const Given& given, std::uint64_t seed) {
  const Format format = format_of_name(given.text("format"));
  const double scale = given.number("scale");
  const std::int64_t count = given.whole("count");
  const std::string name = given.text("format");
  OpCase op({"unscale",
             Direction::forward,
             name + ":" + given.text("compute") + ":" + name,
             {{"n", count}, {"one", 1}},
             {},
             given.text("way")});
  // Scaled gradients in the format's range, whose quotients are normal again.
  const std::vector<double> scaled =
      normal_numbers(count, seed, "g", std::min(1.0, format.largest() / scale / 16) * scale);
  op.give("g", scaled);
  op.give("scale", std::vector<double>{scale});
  op.run();
  UnscalingErrors sum;
  double counted = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const double got = op.at("unscaled").at(i), exact = op.at("g").at(i) / op.at("scale").at(0),
                 gradient = scaled[static_cast<std::size_t>(i)] / scale;
    if (std::abs(exact) < format.smallest_normal()) continue;
    sum.division += std::abs(got - exact) / std::abs(exact);
    sum.trip += std::abs(got - gradient) / std::abs(gradient);
    counted += 1;
  }
  return {sum.division / counted, sum.trip / counted};
}

Measured unscale(const Given& given, Laboratory&) {
  std::vector<double> division, trip;
  for (std::int64_t seed = 1; seed <= given.whole("seeds"); ++seed) {
    const UnscalingErrors e = unscaling_errors(given, static_cast<std::uint64_t>(seed));
    division.push_back(e.division);
    trip.push_back(e.trip);
  }
  Measured m;
  m.add_mean("division_error", division,
             "mean relative error of g / scale, g being in the format already");
  m.add_mean("trip_error", trip,
             "mean relative error of a gradient that was scaled, stored and unscaled");
  return m;
}

bool is_power_of_two(double x) {
  int exponent = 0;
  return std::frexp(x, &exponent) == 0.5;
}

/// The scaler's states over steps of which some overflow.
Measured scaler_states(const Given& given, Laboratory&) {
  const std::int64_t steps = given.whole("steps"), every = given.whole("overflow_every");
  OpCase op({"loss_scaler",
             Direction::forward,
             "fp32",
             {{"steps", steps}},
             {{"init_scale", given.number("initial")},
              {"growth_factor", given.number("growth")},
              {"backoff_factor", given.number("backoff")},
              {"growth_interval", given.whole("interval")}}});
  std::vector<double> found(static_cast<std::size_t>(steps));
  for (std::int64_t t = 0; t < steps; ++t)
    found[static_cast<std::size_t>(t)] = every > 0 && (t + 1) % every == 0 ? 1 : 0;
  op.give("found_inf", found);
  op.run();
  double odd = 0, changes = 0, last = given.number("initial");
  for (std::int64_t t = 0; t < steps; ++t) {
    const double scale = op.at("scale").at(t);
    odd += is_power_of_two(scale) ? 0 : 1;
    changes += scale == last ? 0 : 1;
    last = scale;
  }
  Measured m;
  m.add("not_power_of_two", odd, "steps after which the scale is no power of two", "steps");
  m.add("changes", changes, "steps at which it changes", "steps");
  m.add("last", last, "the scale at the end");
  return m;
}

/// Does a gradient of such a norm make the scaler act? Asked of the op that looks at gradients.
Measured scaler_trigger(const Given& given, Laboratory&) {
  const auto count = given.whole("count");
  std::vector<double> g = normal_numbers(count, 1, "g");
  double squares = 0;
  for (const double x : g) squares += x * x;
  const double factor = given.number("norm") / std::sqrt(squares);
  for (double& x : g) x *= factor;
  if (const std::string planted = given.text("planted"); !planted.empty())
    g[static_cast<std::size_t>(count / 2)] = planted == "nan" ? std::nan("") : INFINITY;
  OpCase op({"unscale", Direction::forward, "fp32", {{"n", count}, {"one", 1}}});
  op.give("g", g);
  op.give("scale", std::vector<double>{given.number("scale")});
  op.run();
  Measured m;
  m.add("acts", static_cast<double>(op.at("found_inf").index_at(0)),
        "1: the step is skipped and the scale falls");
  return m;
}

}  // namespace

Experiments format_experiments() {
  const std::string half = "fp16", brain = "bf16", single = "fp32";
  return {{"format_table",
           "what a format's definition says",
           {{"format", brain}, {"against", half}},
           format_table},
          {"round_trip",
           "every pattern of a narrow format through a wide one; a model's weights the other way",
           {{"narrow", half}, {"wide", single}},
           round_trip},
          {"stored_constant",
           "a small constant in a format",
           {{"value", 1e-5}, {"format", brain}},
           stored_constant},
          {"unscale",
           "normal gradients divided by a scale, against the exact quotient",
           {{"format", half},
            {"compute", single},
            {"scale", 32767.8},
            {"way", std::string("division")},
            {"count", std::int64_t{1} << 16},
            {"seeds", std::int64_t{16}}},
           unscale},
          {"scaler_states",
           "the states of a dynamic loss scale over steps of which some overflow",
           {{"initial", 65536.0},
            {"growth", 2.0},
            {"backoff", 0.5},
            {"interval", std::int64_t{50}},
            {"steps", std::int64_t{10000}},
            {"overflow_every", std::int64_t{137}}},
           scaler_states},
          {"scaler_trigger",
           "whether a finite gradient of a given norm, or a planted infinity, makes the scaler act",
           {{"norm", 1e6},
            {"scale", 65536.0},
            {"count", std::int64_t{4096}},
            {"planted", std::string()}},
           scaler_trigger}};
}

}  // namespace opbound::claims
