// Planted faults of rms_norm.
#pragma once

#include "ops/rms_norm.hpp"
#include "tests/faults/layer_norm.hpp"

namespace opbound::faults {

/// The right algorithm in fp64, but for one step.
namespace rms_norm_faults {

using layer_norm_faults::average;
using layer_norm_faults::row_of;
using layer_norm_faults::store;
using layer_norm_faults::sum_in_bf16;
using layer_norm_faults::Values;

struct Forward {
  std::function<double(const Values&)> mean = average;  ///< of the squares
  std::function<double(double, double)> rstd = [](double mean_square, double eps) {
    return 1 / sqrt(mean_square + eps);
  };
  std::function<double(double, double)> out = [](double xhat, double w) { return xhat * w; };
  std::int64_t statistics_row = 0;  ///< added to the row's own
};

template <class F>
Kernel rows_by(F change) {
  return [change](const Op&, const Call& call) {
    using Pass = opbound::rms_norm::forward;
    const auto a = from_bytes<opbound::rms_norm::Attributes>(call.attributes);
    const auto views = call.judged();
    const std::int64_t rows = call.sizes[0], n = call.sizes[1];
    Forward step;
    step.out = [offset = a.weight_offset](double xhat, double w) { return xhat * (offset + w); };
    change(step);
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::int64_t from = i + step.statistics_row < 0 ? 0 : i + step.statistics_row;
      Values squares = row_of(views[Pass::x], from, n);
      for (double& v : squares) v *= v;
      const double rstd = step.rstd(step.mean(squares), a.eps);
      for (std::int64_t j = 0; j < n; ++j)
        store(views[Pass::y], i * n + j,
              step.out(views[Pass::x].at(i * n + j) * rstd, views[Pass::gamma].at(j)));
      store(views[Pass::rstd], i, rstd);
    }
  };
}

struct Backward {
  double projection = 1;  ///< factor of the term that is subtracted
  double mean_of_g = 0;   ///< the same of the mean, which layer_norm subtracts
  double weight_offset = 0;
  int rstd_power = 1;  ///< of rstd in front of everything
  bool raw_x = false;  ///< dgamma = sum dy x
  std::int64_t rows_left_out = 0;
  std::function<double(double)> mean = [](double x) { return x; };
  std::function<double(const Values&)> sum_rows = [](const Values& x) {
    return average(x) * static_cast<double>(x.size());
  };
};

inline void write_dx(std::span<const TensorView> views, const Sizes& sizes, const Backward& step) {
  using Pass = opbound::rms_norm::backward;
  const std::int64_t n = sizes[1];
  for (std::int64_t i = 0; i < sizes[0]; ++i) {
    const double rstd = views[Pass::rstd].at(i);
    Values g = row_of(views[Pass::dy], i, n), xhat = row_of(views[Pass::x], i, n), along;
    for (std::size_t j = 0; j < g.size(); ++j) {
      g[j] *= step.weight_offset + views[Pass::gamma].at(static_cast<std::int64_t>(j));
      xhat[j] *= rstd;
      along.push_back(g[j] * xhat[j]);
    }
    const double a = step.mean_of_g * average(g), b = step.projection * step.mean(average(along));
    const double factor = step.rstd_power == 1 ? rstd : rstd * rstd;
    for (std::size_t j = 0; j < g.size(); ++j)
      store(views[Pass::dx], i * n + static_cast<std::int64_t>(j),
            factor * (g[j] - a - xhat[j] * b));
  }
}

template <class F>
Kernel gradients_by(F change) {
  return [change](const Op&, const Call& call) {
    using Pass = opbound::rms_norm::backward;
    Backward step;
    step.weight_offset = from_bytes<opbound::rms_norm::Attributes>(call.attributes).weight_offset;
    change(step);
    const auto views = call.judged();
    const std::int64_t n = call.sizes[1];
    write_dx(views, call.sizes, step);
    for (std::int64_t j = 0; j < n; ++j) {
      Values terms;
      for (std::int64_t i = 0; i < call.sizes[0] - step.rows_left_out; ++i)
        terms.push_back(views[Pass::dy].at(i * n + j) * views[Pass::x].at(i * n + j) *
                        (step.raw_x ? 1 : views[Pass::rstd].at(i)));
      store(views[Pass::dgamma], j, step.sum_rows(terms));
    }
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

inline Fault fault(std::string_view name, std::string_view what, std::string_view precision,
                   std::vector<std::int64_t> shape, std::string_view x, Attributes attributes,
                   FaultyKernel run, Direction direction = Direction::forward) {
  return {"rms_norm",
          name,
          what,
          direction,
          precision,
          std::move(shape),
          {{"x", x}, {"gamma", "normal(mean=1, sigma=0.2)"}, {"dy", "normal"}},
          std::move(attributes),
          std::move(run)};
}

inline std::vector<Fault> of_statistics() {
  const auto with_rstd = [](double (*rstd)(double, double)) {
    return forward([rstd](Forward& f) { f.rstd = rstd; });
  };
  return {
      fault("eps_outside_root", "1 / (sqrt(mean x^2) + eps)", "fp32", {4, 128}, "normal",
            {{"eps", 1e-3}}, with_rstd([](double m, double eps) { return 1 / (sqrt(m) + eps); })),
      fault("eps_in_fp16", "eps kept in fp16, where 1e-6 is 1.013e-6", "fp32", {4, 128},
            "normal(sigma=0.001)", {},
            with_rstd([](double m, double eps) { return 1 / sqrt(m + round_to(fp16, eps)); })),
      fault("eps_missing", "1 / sqrt(mean x^2)", "bf16:fp32:bf16", {4, 128}, "normal(sigma=0.003)",
            {}, with_rstd([](double m, double) { return 1 / sqrt(m); })),
      fault("one_too_few", "n - 1 for n", "bf16:fp32:bf16", {4, 128}, "normal", {},
            forward([](Forward& f) {
              f.mean = [](const Values& x) {
                const auto n = static_cast<double>(x.size());
                return average(x) * n / (n - 1);
              };
            })),
      fault("dropped_tail", "the sum leaves out what is beyond a multiple of 32", "fp16:fp32:fp16",
            {4, 129}, "normal", {}, forward([](Forward& f) {
              f.mean = [](const Values& x) {
                Values kept = x;
                kept.resize(x.size() / 32 * 32);
                return average(kept) * static_cast<double>(kept.size()) /
                       static_cast<double>(x.size());
              };
            })),
      fault("bf16_accumulation", "the sum of squares kept in bf16, with an outlier channel",
            "bf16:fp32:bf16", {4, 1024}, "one_hot(value=300, background=2)", {},
            forward([](Forward& f) {
              f.mean = [](const Values& x) {
                return sum_in_bf16(x) / static_cast<double>(x.size());
              };
            })),
      fault("stale_rstd", "the previous row's rstd", "bf16:fp32:bf16", {4, 128}, "normal", {},
            forward([](Forward& f) { f.statistics_row = -1; })),
  };
}

inline std::vector<Fault> of_output() {
  const auto with_out = [](double (*out)(double, double)) {
    return forward([out](Forward& f) { f.out = out; });
  };
  return {
      fault("weight_twice", "xhat gamma gamma", "bf16:fp32:bf16", {4, 128}, "normal", {},
            with_out([](double xhat, double w) { return xhat * w * w; })),
      fault("one_plus_weight", "1 + gamma where gamma is meant", "fp16:fp32:fp16", {4, 128},
            "normal", {}, with_out([](double xhat, double w) { return xhat * (1 + w); })),
      fault("weight_sum_in_bf16", "1 + gamma rounded to bf16", "bf16:fp32:bf16", {4, 128}, "normal",
            {{"weight_offset", 1.0}},
            with_out([](double xhat, double w) { return xhat * round_to(bf16, 1 + w); })),
      fault("cast_before_weight", "xhat rounded to bf16 before the weight multiplies it",
            "bf16:fp32:bf16", {4, 128}, "normal", {},
            with_out([](double xhat, double w) { return round_to(bf16, xhat) * w; })),
  };
}

inline std::vector<Fault> of_gradients() {
  const auto f = [](std::string_view name, std::string_view what, std::string_view precision,
                    FaultyKernel run, Attributes attributes = {}) {
    return fault(name, what, precision, {64, 65}, "normal(mean=1)", std::move(attributes),
                 std::move(run), Direction::backward_local);
  };
  return {
      f("no_projection", "dx = rstd g", "bf16:fp32:bf16",
        backward([](Backward& b) { b.projection = 0; })),
      f("mean_subtracted", "layer_norm's mean g subtracted", "bf16:fp32:bf16",
        backward([](Backward& b) { b.mean_of_g = 1; })),
      f("projection_in_bf16", "mean(g xhat) rounded to bf16", "fp32",
        backward([](Backward& b) { b.mean = [](double m) { return round_to(bf16, m); }; })),
      f("rstd_squared", "rstd^2 in front for rstd", "fp16:fp32:fp16",
        backward([](Backward& b) { b.rstd_power = 2; })),
      f("offset_left_out", "g = dy gamma where the weight is 1 + gamma", "bf16:fp32:bf16",
        backward([](Backward& b) { b.weight_offset = 0; }), {{"weight_offset", 1.0}}),
      f("dgamma_from_x", "dgamma = sum dy x", "bf16:fp32:bf16",
        backward([](Backward& b) { b.raw_x = true; })),
      f("last_row_left_out", "dgamma without the last row", "fp32",
        backward([](Backward& b) { b.rows_left_out = 1; })),
      f("dgamma_in_bf16", "sums over rows kept in bf16", "bf16:fp32:bf16",
        backward([](Backward& b) { b.sum_rows = sum_in_bf16; })),
      fault("rstd_saved_in_bf16", "rstd rounded to bf16 between the passes", "fp32", {4, 128},
            "normal", {}, layer_norm_faults::saved_in_bf16("rstd"), Direction::backward_full),
  };
}

}  // namespace rms_norm_faults

inline std::vector<Fault> rms_norm() {
  using namespace rms_norm_faults;
  return joined(of_statistics(), of_output(), of_gradients());
}

}  // namespace opbound::faults
