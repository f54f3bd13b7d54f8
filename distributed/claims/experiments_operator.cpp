// One op against its certified reference, computed in several ways.
#include <cmath>
#include <set>

#include "distributed/claims/experiment.hpp"
#include "distributed/claims/op_case.hpp"
#include "reports/error.hpp"

namespace opbound::claims {
namespace {

std::vector<double> grid(double low, double high, std::int64_t points) {
  std::vector<double> x;
  for (std::int64_t i = 0; i < points; ++i)
    x.push_back(low + (high - low) * static_cast<double>(i) / static_cast<double>(points - 1));
  return x;
}

/// GELU' by our kernel, dy being 1; with `exact` its certified values.
std::vector<double> gelu_slope(const std::vector<double>& x, const std::string& precision,
                               bool exact) {
  OpCase op(
      {"gelu", Direction::backward_full, precision, {{"n", static_cast<std::int64_t>(x.size())}}});
  op.give("x", x);
  op.give("dy", std::vector<double>(x.size(), 1.0));
  op.run();
  return exact ? op.exact("dx") : op.at("dx").values();
}

std::vector<double> gelu_values(const std::vector<double>& x, const std::string& precision) {
  OpCase op({"gelu", Direction::forward, precision, {{"n", static_cast<std::int64_t>(x.size())}}});
  op.give("x", x);
  op.run();
  return op.at("y").values();
}

std::vector<double> slope_by(const std::string& way, const std::string& format,
                             const std::vector<double>& x, double h) {
  const Format f = format_of_name(format);
  if (way == "every_operation") return gelu_slope(x, format, false);
  if (way == "inside_fp32") return gelu_slope(x, format + ":fp32:" + format, false);
  if (way == "output") {
    std::vector<double> y = gelu_slope(x, "fp64", false);
    for (double& v : y) v = round_to(f, v);
    return y;
  }
  if (way != "difference")
    throw InputError("", "way '" + way + "'", "every_operation, inside_fp32, output or difference");
  std::vector<double> above(x), below(x);
  for (std::size_t i = 0; i < x.size(); ++i) {
    above[i] += h;
    below[i] -= h;
  }
  std::vector<double> up = gelu_values(above, format + ":fp32:" + format);
  const std::vector<double> down = gelu_values(below, format + ":fp32:" + format);
  for (std::size_t i = 0; i < x.size(); ++i) up[i] = (up[i] - down[i]) / (2 * h);
  return up;
}

/// Share of a format's neighbouring numbers in [low, high] that get the same slope.
double saturated_share(const std::string& format, double low, double high) {
  const Format f = format_of_name(format);
  if (f.bits() > 16) return std::nan("");
  std::set<double> inputs;
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << f.bits(); ++bits)
    if (const double x = decode(f, bits); x >= low && x <= high) inputs.insert(x);
  const std::vector<double> x(inputs.begin(), inputs.end());
  const std::vector<double> slope = gelu_slope(x, format + ":fp32:" + format, false);
  double same = 0;
  for (std::size_t i = 1; i < x.size(); ++i) same += slope[i] == slope[i - 1] ? 1 : 0;
  return same / static_cast<double>(x.size() - 1);
}

Measured gelu_gradient(const Given& given, Laboratory&) {
  const double low = given.number("low"), high = given.number("high");
  const std::vector<double> x = grid(low, high, given.whole("points"));
  const std::vector<double> exact = gelu_slope(x, "fp64", true);
  const std::vector<double> got =
      slope_by(given.text("way"), given.text("format"), x, given.number("h"));
  double sum = 0, largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double error = std::abs(got[i] - exact[i]);
    sum += error;
    largest = std::max(largest, error);
  }
  Measured m;
  m.add("mean_error", sum / static_cast<double>(x.size()),
        "mean of |slope - exact| over a uniform grid of inputs");
  m.add("max_error", largest, "and its largest");
  m.add("saturated", saturated_share(given.text("format"), low, high),
        "share of the format's neighbouring inputs there that get the same slope");
  return m;
}

/// Rows of normal logits whose first is `top`; the target is another one.
std::vector<double> logits_of(std::int64_t rows, std::int64_t vocabulary, double top,
                              std::uint64_t seed) {
  std::vector<double> x = normal_numbers(rows * vocabulary, seed, "logits");
  for (std::int64_t r = 0; r < rows; ++r) x[static_cast<std::size_t>(r * vocabulary)] = top;
  return x;
}

/// log sum exp(x) - x_t without the shift by the largest, every operation rounded.
double unshifted_loss(const Format& f, const Tensor& x, std::int64_t row, std::int64_t vocabulary,
                      std::int64_t target) {
  double sum = 0;
  for (std::int64_t j = 0; j < vocabulary; ++j)
    sum = round_to(f, sum + round_to(f, std::exp(x.at(row * vocabulary + j))));
  return round_to(f, round_to(f, std::log(sum)) - x.at(row * vocabulary + target));
}

struct LossErrors {
  double mean = 0, mean_magnitude = 0, largest_ulp = 0, infinite = 0;
};

LossErrors loss_errors(const Given& given, std::uint64_t seed) {
  const std::int64_t vocabulary = given.whole("vocabulary"), rows = given.whole("rows");
  OpCase op({"cross_entropy",
             Direction::forward,
             given.text("precision"),
             {{"rows", rows}, {"vocab", vocabulary}, {"one", 1}},
             {{"reduction", std::string("none")}}});
  std::vector<double> targets;
  for (std::int64_t r = 0; r < rows; ++r)
    targets.push_back(static_cast<double>(1 + r % (vocabulary - 1)));
  op.give("logits", logits_of(rows, vocabulary, given.number("top"), seed));
  op.give("targets", targets);
  op.run();
  const std::vector<double> exact = op.exact("loss");
  const Format format = precision_named(given.text("precision"))->output;
  LossErrors e;
  double counted = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto target = static_cast<std::int64_t>(targets[static_cast<std::size_t>(r)]);
    const double got = given.flag("shifted")
                           ? round_to(format, op.at("loss").at(r))  // kept wide by the op
                           : unshifted_loss(format, op.at("logits"), r, vocabulary, target);
    if (!std::isfinite(got)) {
      e.infinite += 1;
      continue;
    }
    const double error = got - exact[static_cast<std::size_t>(r)];
    e.mean += error;
    e.mean_magnitude += std::abs(error);
    e.largest_ulp =
        std::max(e.largest_ulp, std::abs(error) / ulp(format, exact[static_cast<std::size_t>(r)]));
    counted += 1;
  }
  e.mean = counted > 0 ? e.mean / counted : std::nan("");
  e.mean_magnitude = counted > 0 ? e.mean_magnitude / counted : std::nan("");
  return e;
}

Measured cross_entropy_error(const Given& given, Laboratory&) {
  std::vector<double> means, magnitudes;
  double largest = 0, infinite = 0;
  for (std::int64_t seed = 1; seed <= given.whole("seeds"); ++seed) {
    const LossErrors e = loss_errors(given, static_cast<std::uint64_t>(seed));
    means.push_back(e.mean);
    magnitudes.push_back(e.mean_magnitude);
    largest = std::max(largest, e.largest_ulp);
    infinite += e.infinite;
  }
  Measured m;
  m.add("infinite", infinite / static_cast<double>(given.whole("rows") * given.whole("seeds")),
        "share of rows whose loss is no finite number");
  if (infinite > 0) return m;
  m.add_mean("mean_error", means, "mean of loss - exact loss at the same logits", "nats");
  m.add_mean("mean_magnitude", magnitudes, "mean of |loss - exact loss|", "nats");
  m.add("max_ulp", largest, "largest error", "ulp");
  return m;
}

Measured attention_tilings(const Given& given, Laboratory&) {
  const std::int64_t keys = given.whole("keys"), heads = 2, queries = 16, d = 64;
  const auto run = [&](const std::string& variant, std::int64_t tile) {
    OpCase op(
        {"attention",
         Direction::forward,
         given.text("precision"),
         {{"heads", heads}, {"kv_heads", heads}, {"queries", queries}, {"keys", keys}, {"d", d}},
         {{"tile", tile}},
         variant});
    op.give("q", normal_numbers(heads * queries * d, 1, "q"));
    op.give("k", normal_numbers(heads * keys * d, 1, "k"));
    op.give("v", normal_numbers(heads * keys * d, 1, "v"));
    op.run();
    return op;
  };
  const OpCase a = run("online", given.whole("tile")), b = run("online", given.whole("other_tile"));
  const std::vector<double> bound = a.any_order_bound("o");
  double differing = 0, ratio = 0;
  for (std::int64_t i = 0; i < a.at("o").count(); ++i) {
    const double apart = std::abs(a.at("o").at(i) - b.at("o").at(i));
    differing += apart > 0 ? 1 : 0;
    ratio = std::max(ratio, apart / (2 * bound[static_cast<std::size_t>(i)]));
  }
  Measured m;
  m.add("differing", differing / static_cast<double>(a.at("o").count()),
        "share of outputs whose bits differ between the two tilings");
  m.add("over_bound", ratio, "largest difference, over twice the bound of any order of summation");
  return m;
}

/// Norm of layer norm's input gradient with eps held in a format, over the exact one's.
Measured layer_norm_eps(const Given& given, Laboratory&) {
  const std::int64_t rows = 64, n = 256;
  OpCase op({"layer_norm",
             Direction::backward_full,
             "fp32",
             {{"rows", rows}, {"n", n}},
             {{"eps", given.number("eps")},
              {"eps_format", given.text("eps_format")},
              {"affine", std::string("none")}}});
  op.give("x", normal_numbers(rows * n, 1, "x", given.number("deviation")));
  op.give("dy", normal_numbers(rows * n, 1, "dy"));
  op.run();
  const std::vector<double> exact = op.exact("dx");
  double got = 0, right = 0, nonfinite = 0;
  for (std::int64_t i = 0; i < rows * n; ++i) {
    const double dx = op.at("dx").at(i), e = exact[static_cast<std::size_t>(i)];
    nonfinite += std::isfinite(dx) ? 0 : 1;
    got += dx * dx;
    right += e * e;
  }
  Measured m;
  m.add("norm_ratio", std::sqrt(got / right),
        "norm of the input's gradient, over the exact one's with eps as it is written");
  m.add("nonfinite", nonfinite, "elements of it that are no numbers");
  return m;
}

}  // namespace

Experiments operator_experiments() {
  return {{"gelu_gradient",
           "GELU's derivative on a uniform grid, against the certified one",
           {{"way", std::string("inside_fp32")},
            {"format", std::string("bf16")},
            {"low", -3.0},
            {"high", 3.0},
            {"points", std::int64_t{100000}},
            {"h", 0.1}},
           gelu_gradient},
          {"cross_entropy_error",
           "the loss of rows with one large logit, against the exact loss of the same logits",
           {{"precision", std::string("fp16")},
            {"vocabulary", std::int64_t{1000}},
            {"top", 12.0},
            {"rows", std::int64_t{200}},
            {"seeds", std::int64_t{16}},
            {"shifted", true}},
           cross_entropy_error},
          {"attention_tilings",
           "online attention in two tile sizes, against the bound of any order of summation",
           {{"precision", std::string("bf16:fp32:bf16")},
            {"keys", std::int64_t{1024}},
            {"tile", std::int64_t{64}},
            {"other_tile", std::int64_t{128}}},
           attention_tilings},
          {"layer_norm_eps",
           "layer norm's gradient with eps held in a format",
           {{"eps", 1e-5}, {"eps_format", std::string("bf16")}, {"deviation", 1e-3}},
           layer_norm_eps}};
}

}  // namespace opbound::claims
