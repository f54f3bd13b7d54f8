// Planted faults of layer_norm.
#pragma once

#include "ops/layer_norm.hpp"
#include "tests/faults/fault.hpp"

namespace opbound::faults {

/// The right algorithm in fp64, but for one step.
namespace layer_norm_faults {

using Values = std::vector<double>;

inline Values row_of(const TensorView& v, std::int64_t row, std::int64_t n) {
  Values x;
  for (std::int64_t j = 0; j < n; ++j) x.push_back(v.at(row * n + j));
  return x;
}

inline double average(const Values& x) {
  double s = 0;
  for (const double v : x) s += v;
  return s / static_cast<double>(x.size());
}
inline double squares(const Values& x, double mean) {
  double s = 0;
  for (const double v : x) s += (v - mean) * (v - mean);
  return s;
}
inline double sum_in_bf16(const Values& x) {
  auto s = Rounded<bf16>::of(0);
  for (const double v : x) s = s + Rounded<bf16>::of(v);
  return s.value;
}
inline void store(const TensorView& to, std::int64_t i, double value) {
  to.set(i, round_to(format_of(to.element), value));
}

struct Forward {
  std::function<Values(Values)> seen = [](Values x) { return x; };  ///< by the statistics
  std::function<double(const Values&)> mean = average;
  std::function<double(const Values&, double)> variance = [](const Values& x, double mean) {
    return squares(x, mean) / static_cast<double>(x.size());
  };
  std::function<double(double, double)> rstd = [](double variance, double eps) {
    return 1 / sqrt(variance + eps);
  };
  std::function<double(double, double, double)> out = [](double xhat, double w, double b) {
    return xhat * w + b;
  };
  std::int64_t statistics_row = 0;  ///< added to the row's own
};

template <class F>
Kernel rows_by(F change) {
  return [change](const Op&, const Call& call) {
    using Pass = opbound::layer_norm::forward;
    const auto a = from_bytes<opbound::layer_norm::Attributes>(call.attributes);
    const auto views = call.judged();
    const std::int64_t rows = call.sizes[0], n = call.sizes[1];
    for (std::int64_t i = 0; i < rows; ++i) {
      Forward step;
      change(step);
      const std::int64_t from = i + step.statistics_row < 0 ? 0 : i + step.statistics_row;
      const Values x = row_of(views[Pass::x], i, n);
      const Values seen = step.seen(row_of(views[Pass::x], from, n));
      const double mean = step.mean(seen);
      const double rstd = step.rstd(step.variance(seen, mean), a.eps);
      for (std::int64_t j = 0; j < n; ++j)
        store(views[Pass::y], i * n + j,
              step.out((x[static_cast<std::size_t>(j)] - mean) * rstd, views[Pass::gamma].at(j),
                       views[Pass::beta].at(j)));
      store(views[Pass::mean], i, mean);
      store(views[Pass::rstd], i, rstd);
    }
  };
}

struct Backward {
  double mean_of_g = 1, projection = 1;  ///< factors of the two terms that are subtracted
  double weight_offset = 0;
  int weights = 1;  ///< how often the weight multiplies
  std::int64_t statistics_row = 0, rows_left_out = 0;
  bool raw_x = false;                                               ///< dgamma = sum dy x
  std::function<double(double)> mean = [](double x) { return x; };  ///< what is made of a mean
  std::function<double(const Values&)> sum_rows = [](const Values& x) {
    return average(x) * static_cast<double>(x.size());
  };
};

inline void write_dx(std::span<const TensorView> views, const Sizes& sizes, const Backward& step) {
  using Pass = opbound::layer_norm::backward;
  const std::int64_t n = sizes[1];
  for (std::int64_t i = 0; i < sizes[0]; ++i) {
    const std::int64_t from = i + step.statistics_row < 0 ? 0 : i + step.statistics_row;
    const double mean = views[Pass::mean].at(from), rstd = views[Pass::rstd].at(from);
    Values g = row_of(views[Pass::dy], i, n), xhat = row_of(views[Pass::x], i, n), along;
    for (std::size_t j = 0; j < g.size(); ++j) {
      const double w = step.weight_offset + views[Pass::gamma].at(static_cast<std::int64_t>(j));
      for (int k = 0; k < step.weights; ++k) g[j] *= w;
      xhat[j] = (xhat[j] - mean) * rstd;
      along.push_back(g[j] * xhat[j]);
    }
    const double a = step.mean_of_g * step.mean(average(g)),
                 b = step.projection * step.mean(average(along));
    for (std::size_t j = 0; j < g.size(); ++j)
      store(views[Pass::dx], i * n + static_cast<std::int64_t>(j),
            rstd * ((g[j] - a) - xhat[j] * b));
  }
}

inline void write_weight_gradients(std::span<const TensorView> views, const Sizes& sizes,
                                   const Backward& step) {
  using Pass = opbound::layer_norm::backward;
  const std::int64_t n = sizes[1];
  for (std::int64_t j = 0; j < n; ++j) {
    Values for_gamma, for_beta;
    for (std::int64_t i = 0; i < sizes[0] - step.rows_left_out; ++i) {
      const std::int64_t from = i + step.statistics_row < 0 ? 0 : i + step.statistics_row;
      const double x = views[Pass::x].at(i * n + j), dy = views[Pass::dy].at(i * n + j);
      const double xhat = (x - views[Pass::mean].at(from)) * views[Pass::rstd].at(from);
      for_gamma.push_back(dy * (step.raw_x ? x : xhat));
      for_beta.push_back(dy);
    }
    store(views[Pass::dgamma], j, step.sum_rows(for_gamma));
    store(views[Pass::dbeta], j, step.sum_rows(for_beta));
  }
}

template <class F>
Kernel gradients_by(F change) {
  return [change](const Op&, const Call& call) {
    Backward step;
    step.weight_offset = from_bytes<opbound::layer_norm::Attributes>(call.attributes).weight_offset;
    change(step);
    write_dx(call.judged(), call.sizes, step);
    write_weight_gradients(call.judged(), call.sizes, step);
  };
}

template <class F>
FaultyKernel forward(F change) {
  return {rows_by(change), rows_by([](Forward&) {})};
}
template <class F>
FaultyKernel backward(F change) {
  return {gradients_by(change), gradients_by([](Backward&) {})};
}

inline FaultyKernel saved_in_bf16(std::string_view tensor) {
  return with_saved(tensor,
                    [](const TensorView& v, std::int64_t i) { return round_to(bf16, v.at(i)); });
}

inline Inputs inputs(std::string_view x) {
  return {{"x", x},
          {"gamma", "normal(mean=1, sigma=0.2)"},
          {"beta", "normal(sigma=0.3)"},
          {"dy", "normal"}};
}

inline Fault fault(std::string_view name, std::string_view what, std::string_view precision,
                   std::vector<std::int64_t> shape, std::string_view x, Attributes attributes,
                   FaultyKernel run, Direction direction = Direction::forward) {
  return {
      "layer_norm",          name,          what, direction, precision, std::move(shape), inputs(x),
      std::move(attributes), std::move(run)};
}

inline std::vector<Fault> of_eps() {
  return {
      fault("eps_outside_root", "1 / (sqrt(var) + eps)", "fp32", {4, 128}, "normal",
            {{"eps", 1e-3}}, forward([](Forward& f) {
              f.rstd = [](double variance, double eps) { return 1 / (sqrt(variance) + eps); };
            })),
      fault("eps_in_fp16", "eps kept in fp16, where 1e-6 is 1.013e-6", "fp32", {4, 128},
            "normal(sigma=0.001)", {{"eps", 1e-6}}, forward([](Forward& f) {
              f.rstd = [](double variance, double eps) {
                return 1 / sqrt(variance + round_to(fp16, eps));
              };
            })),
      fault("eps_missing", "1 / sqrt(var)", "bf16:fp32:bf16", {4, 128}, "normal(sigma=0.01)", {},
            forward([](Forward& f) {
              f.rstd = [](double variance, double) { return 1 / sqrt(variance); };
            })),
  };
}

inline std::vector<Fault> of_statistics() {
  return {
      fault("one_pass_variance", "mean x^2 - m^2 where two passes are declared", "fp32", {4, 128},
            "normal(mean=1000)", {},
            with_call([](Call& c) { c.variant = opbound::layer_norm::one_pass; })),
      fault("times_reciprocal", "times fl(1/n): a constant row's xhat is no longer 0", "fp32",
            {4, 97}, "constant(value=1000)", {},
            with_call([](Call& c) { c.variant = opbound::layer_norm::reciprocal; })),
      fault("sample_variance", "n - 1 for n", "bf16:fp32:bf16", {4, 128}, "normal", {},
            forward([](Forward& f) {
              f.variance = [](const Values& x, double mean) {
                return squares(x, mean) / static_cast<double>(x.size() - 1);
              };
            })),
      fault("dropped_tail", "statistics leave out what is beyond a multiple of 32",
            "fp16:fp32:fp16", {4, 129}, "normal", {}, forward([](Forward& f) {
              f.seen = [](Values x) {
                x.resize(x.size() / 32 * 32);
                return x;
              };
            })),
      fault("bf16_accumulation", "the mean's sum kept in bf16", "bf16:fp32:bf16", {4, 1024},
            "normal(mean=1)", {}, forward([](Forward& f) {
              f.mean = [](const Values& x) {
                return sum_in_bf16(x) / static_cast<double>(x.size());
              };
            })),
      fault("stale_statistics", "the previous row's mean and rstd", "bf16:fp32:bf16", {4, 128},
            "normal", {}, forward([](Forward& f) { f.statistics_row = -1; })),
  };
}

inline std::vector<Fault> of_output() {
  return {
      fault("weight_twice", "xhat gamma gamma + beta", "bf16:fp32:bf16", {4, 128}, "normal", {},
            forward([](Forward& f) {
              f.out = [](double xhat, double w, double b) { return xhat * w * w + b; };
            })),
      fault("one_plus_weight", "1 + gamma where gamma is meant", "fp16:fp32:fp16", {4, 128},
            "normal", {}, forward([](Forward& f) {
              f.out = [](double xhat, double w, double b) { return xhat * (1 + w) + b; };
            })),
      fault("cast_before_weight", "xhat rounded to bf16 before the weight multiplies it",
            "bf16:fp32:bf16", {4, 128}, "normal", {}, forward([](Forward& f) {
              f.out = [](double xhat, double w, double b) { return round_to(bf16, xhat) * w + b; };
            })),
      fault("truncated_store", "the output truncated instead of rounded to nearest",
            "bf16:fp32:bf16", {4, 128}, "normal", {}, truncating("y")),
  };
}

inline std::vector<Fault> of_gradients() {
  constexpr auto local = Direction::backward_local, full = Direction::backward_full;
  const auto f = [](std::string_view name, std::string_view what, std::string_view precision,
                    FaultyKernel run, Attributes attributes = {}) {
    return fault(name, what, precision, {64, 65}, "normal(mean=1)", std::move(attributes),
                 std::move(run), local);
  };
  return {
      f("mean_of_g_left_out", "dx = rstd (g - xhat mean(g xhat))", "bf16:fp32:bf16",
        backward([](Backward& b) { b.mean_of_g = 0; })),
      f("no_projection", "dx = rstd (g - mean g)", "bf16:fp32:bf16",
        backward([](Backward& b) { b.projection = 0; })),
      f("means_in_bf16", "mean g and mean(g xhat) rounded to bf16", "fp32",
        backward([](Backward& b) { b.mean = [](double m) { return round_to(bf16, m); }; })),
      f("weight_left_out", "g = dy", "fp16:fp32:fp16",
        backward([](Backward& b) { b.weights = 0; })),
      f("offset_left_out", "g = dy gamma where the weight is 1 + gamma", "bf16:fp32:bf16",
        backward([](Backward& b) { b.weight_offset = 0; }), {{"weight_offset", 1.0}}),
      f("stale_statistics_backward", "the previous row's mean and rstd", "bf16:fp32:bf16",
        backward([](Backward& b) { b.statistics_row = -1; })),
      f("dgamma_from_x", "dgamma = sum dy x", "bf16:fp32:bf16",
        backward([](Backward& b) { b.raw_x = true; })),
      f("last_row_left_out", "dgamma and dbeta without the last row", "fp32",
        backward([](Backward& b) { b.rows_left_out = 1; })),
      f("dgamma_in_bf16", "sums over rows kept in bf16", "bf16:fp32:bf16",
        backward([](Backward& b) { b.sum_rows = sum_in_bf16; })),
      fault("rstd_saved_in_bf16", "rstd rounded to bf16 between the passes", "fp32", {4, 128},
            "normal", {}, saved_in_bf16("rstd"), full),
  };
}

}  // namespace layer_norm_faults

inline std::vector<Fault> layer_norm() {
  using namespace layer_norm_faults;
  return joined(of_eps(), of_statistics(), of_output(), of_gradients());
}

}  // namespace opbound::faults
