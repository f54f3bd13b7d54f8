// hipDNN's derived tolerances: one number for a tensor, from its shape and its inputs' largest
// magnitudes, taken as absolute and as relative tolerance at once.
#include <cmath>

#include "reports/rivals.hpp"

namespace opbound::detail {
namespace {

using Figure = std::optional<double>;

/// std::numeric_limits<T>::epsilon().
double epsilon_of(const Format& f) { return 2 * f.unit_roundoff(); }

bool is_known(const Format& f) { return f == fp64 || f == fp32 || f == fp16 || f == bf16; }

/// max |v + offset|.
double largest_of(const TensorView& v, double offset = 0) {
  double top = 0;
  for (std::int64_t i = 0; i < v.count(); ++i) top = std::fmax(top, std::fabs(v.at(i) + offset));
  return top;
}

/// The formats that a formula's template parameters name.
struct Formats {
  double input, compute, output;  ///< epsilons

  double cast_in(double magnitude, double operands) const {
    return input < compute ? operands * magnitude * compute : 0;
  }
  double cast_out(double magnitude) const { return output > compute ? magnitude * output : 0; }
};

/// computeGamma: 2 k u / (1 - 2 k u) while 2 k u < 0.01, then 6 sqrt(2 k) u; u is the epsilon.
/// Nothing from 1/2 on, where the formulas throw.
Figure gamma(double k, double u) {
  const double nu = 2 * k * u;
  const double g = nu < 0.01 ? nu / (1 - nu) : 6 * std::sqrt(2 * k) * u;
  return g < 0.5 ? Figure(g) : std::nullopt;
}

/// calculateMatmulTolerance: gamma_k |A| |B| and casts, norms the largest row sums.
Figure of_matmul(const RivalCase& c, const Formats& f) {
  const auto row_sum = [](const TensorView& m) {
    double most = 0;
    for (std::int64_t i = 0; i < m.size[0]; ++i) {
      double sum = 0;
      for (std::int64_t j = 0; j < m.size[1]; ++j) sum += std::fabs(m.at(i * m.size[1] + j));
      most = std::fmax(most, sum);
    }
    return most;
  };
  const double signal = row_sum(c.tensor("a")) * row_sum(c.tensor("b"));
  const Figure g = gamma(static_cast<double>(c.call->sizes[2]), f.compute);
  if (!g) return std::nullopt;
  return *g * signal + f.cast_in(signal, 2) + f.cast_out(signal);
}

/// calculateLayernormFpropTolerance (of 2 n terms) and calculateRMSNormFwdTolerance (of n): gamma
/// scale / 2, five roundings, the bias's one, casts.
Figure of_norm(const RivalCase& c, const Formats& f, double terms, double bias) {
  const double x = largest_of(c.tensor("x"));
  const TensorView weights = c.tensor("gamma");
  const double offset = std::get<double>(c.attribute("weight_offset"));  // weights stored less it
  const double scale = weights.count() == 0 ? 1 : largest_of(weights, offset);
  const Figure g = gamma(terms, f.compute);
  if (!g) return std::nullopt;
  const double input_cast = f.input < f.compute ? f.compute : 0;
  double t = bias * f.compute;
  if (x > 0) t += (*g + input_cast) / 2 * scale + 5 * f.compute * scale;
  return t + f.cast_out((x > 0 ? scale : 0) + bias);
}

/// calculateSdpaFwdTolerance: the scores' error and the softmax's (Blanchard et al.), weighted by
/// the largest v, the sum over v, and casts.
Figure of_attention(const RivalCase& c, const Formats& f) {
  const auto d = static_cast<double>(c.call->sizes[4]);
  const auto keys = static_cast<double>(c.call->sizes[3]);
  const double given = std::get<double>(c.attribute("scale"));
  const double scale = given == 0 ? 1 / std::sqrt(d) : given;
  const double v = largest_of(c.tensor("v"));
  const double scores = d * largest_of(c.tensor("q")) * largest_of(c.tensor("k")) * scale;
  const Figure of_d = gamma(d, f.compute), of_keys = gamma(keys, f.compute);
  if (!of_d || !of_keys) return std::nullopt;
  const double score_error = (*of_d + f.compute) * scores;
  const double softmax_error = *of_keys + (keys + 1) * f.compute;
  return (score_error + softmax_error + *of_keys + f.cast_in(scores, 2)) * v + f.cast_in(v, 1) +
         f.cast_out(v);
}

/// calculatePointwiseTolerance: C epsilon scale and casts; C by PointwiseErrorClass, about twice
/// as large in 16 bits, scale the largest input.
Figure of_pointwise(const RivalCase& c, const Formats& f, double multiplier) {
  double scale = 0;
  const auto tensors = c.op->pass(c.call->direction).tensors;
  for (std::size_t t = 0; t < tensors.size(); ++t)
    if (tensors[t].role == Role::in) scale = std::fmax(scale, largest_of(c.call->judged()[t]));
  const bool is_low = f.compute > epsilon_of(fp32);
  return (is_low ? 2 : 1) * multiplier * f.compute * scale + f.cast_in(scale, 1) +
         f.cast_out(scale);
}

/// Nothing where hipDNN has no formula; an empty figure where the formula throws.
std::optional<Figure> tolerance_of(const RivalCase& c, const RivalOutput& out, const Formats& f) {
  const std::string_view op = c.op->name;
  const auto n = static_cast<double>(c.call->sizes[1]);
  if (op == "gelu") return of_pointwise(c, f, c.is_forward() ? 16 : 24);  // COMPOSITE_FWD, _BWD
  if (!c.is_forward()) return std::nullopt;
  if ((op == "residual" || op == "bias") && out.tensor == "y")
    return of_pointwise(c, f, 2);                                       // LINEAR
  if (op == "cast" && out.tensor == "y") return of_pointwise(c, f, 1);  // BITWISE
  if (op == "layer_norm" && out.tensor == "y")
    return of_norm(c, f, 2 * n, largest_of(c.tensor("beta")));
  if (op == "rms_norm" && out.tensor == "y") return of_norm(c, f, n, 0);
  if (op == "attention" && out.tensor == "o") return of_attention(c, f);
  const bool is_plain_product = op == "matmul" && std::get<double>(c.attribute("alpha")) == 1 &&
                                std::get<double>(c.attribute("beta")) == 0 &&
                                !std::get<bool>(c.attribute("bias")) &&
                                !std::get<bool>(c.attribute("scaled")) && c.call->sizes[2] > 0;
  if (is_plain_product) return of_matmul(c, f);
  return std::nullopt;
}

}  // namespace

/// |got - right| <= T + T |right| as CpuFpReferenceValidation has it, T of type float: a number
/// where the reference is NaN or infinite is refused, and the reverse; two that are not numbers are
/// alike.
RivalAnswer by_hipdnn(const RivalCase& c, const RivalOutput& out) {
  const Precision& p = c.precision;
  if (!is_float(out.element) || !is_known(format_of(out.element)) || !is_known(p.storage) ||
      !is_known(p.compute))
    return not_for("no formula for this format");
  const auto figure = tolerance_of(
      c, out, {epsilon_of(p.storage), epsilon_of(p.compute), epsilon_of(format_of(out.element))});
  if (!figure) return not_for("no formula for this operator or output");
  if (!*figure) return not_for("the formula throws: gamma is above 1/2");
  const double t = static_cast<float>(**figure);
  RivalAnswer answer;
  for (std::size_t i = 0; i < out.got.size(); ++i) {
    const bool is_number = std::isfinite(out.got[i]), wants_number = std::isfinite(out.expected[i]);
    const bool refused =
        is_number != wants_number ||
        (is_number && std::fabs(out.got[i] - out.expected[i]) > t + t * std::fabs(out.expected[i]));
    if (refused) ++answer.flagged;
  }
  answer.accepts = answer.flagged == 0;
  return answer;
}

}  // namespace opbound::detail
