#include "reports/rivals.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace opbound {

TensorView RivalCase::tensor(std::string_view name) const {
  const auto tensors = op->pass(call->direction).tensors;
  for (std::size_t t = 0; t < tensors.size(); ++t)
    if (tensors[t].name == name) return call->judged()[t];
  TensorView nothing;
  nothing.rank = 1;
  return nothing;
}

AttributeValue RivalCase::attribute(std::string_view name) const {
  for (const AttributeSpec& a : op->attributes)
    if (a.name == name) return a.get(call->attributes);
  detail::require(false, "an attribute that the op has");
  return {};
}

std::span<const Rival> rivals() {
  static constexpr std::array<Rival, 8> all{{
      {"assert_close", "torch.testing.assert_close with its defaults by format; NaN equals NaN",
       "pytorch/pytorch torch/testing/_comparison.py 003029b0", detail::by_assert_close},
      {"TransformerEngine", "its tests' figures by operator and format",
       "NVIDIA/TransformerEngine tests/cpp/test_common.cu c2b8efa9, operator/test_act.cu 05f01839, "
       "test_normalization.cu 165f3fb3, test_softmax.cu 41b37466; tests/pytorch/utils.py 009e6518, "
       "test_fusible_ops.py 7348d219",
       detail::by_transformer_engine},
      {"apex", "its tests' figures by operator and format",
       "NVIDIA/apex tests/L0/run_fused_layer_norm/test_fused_layer_norm.py 97ae82eb, "
       "run_transformer/test_fused_softmax.py ab3a0ded, test_fused_rope.py 16fadfe7, "
       "run_optimizers/test_adam.py 141bbf1c, run_fused_dense/test_gelu.py 62c94ed1",
       detail::by_apex},
      {"Liger", "its tests' figures by operator and format",
       "linkedin/Liger-Kernel test/transformers: test_layer_norm.py 078e932b, test_rms_norm.py "
       "af35a6cf, test_softmax.py 1de3849a, test_swiglu.py 77ff1a9b, test_gelu.py 15f8ac01, "
       "test_rope.py 00fb8bf2, test_embedding.py 0a141c5f, test_cross_entropy.py af35a6cf",
       detail::by_liger},
      {"2x PyTorch", "flash-attention: at most twice the error of PyTorch in the same 16 bits",
       "Dao-AILab/flash-attention tests/test_flash_attn.py 765fbd92", detail::by_flash_attention},
      {"hipDNN", "tolerances derived from shapes and the largest inputs",
       "ROCm/rocm-libraries projects/hipdnn/test_sdk/include/hipdnn_test_sdk/utilities: "
       "DynamicTolerances.hpp 013469f2, DynamicTolerancesLayerNorm.hpp 5032a943, "
       "CpuFpReferenceValidation.hpp 1883d700; DynamicTolerancesRMSNorm.hpp and "
       "DynamicTolerancesSdpa.hpp of the copy tfalders/rocm-libraries f6b59e29",
       detail::by_hipdnn},
      {"cosine 0.99", "the cosine of output and reference above 0.99",
       "flashinfer-ai/flashinfer tests/gemm/test_bmm_fp8.py 20cd88e5", detail::by_cosine},
      {"KL 1e-3", "the divergence of each row's distribution at most 1e-3",
       "modular/modular max/tests/integration/accuracy/verify.py 0f181955", detail::by_divergence},
  }};
  return all;
}

namespace detail {

RivalAnswer not_for(std::string_view why) {
  RivalAnswer a;
  a.why_not = why;
  return a;
}

RivalAnswer close_as_torch(const std::vector<double>& got, const std::vector<double>& right,
                           const Tolerance& t) {
  RivalAnswer answer;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = std::fabs(got[i] - right[i]);
    const bool both_nan = std::isnan(got[i]) && std::isnan(right[i]);
    const bool is_close = got[i] == right[i] || both_nan ||
                          (std::isfinite(error) && error <= t.atol + t.rtol * std::fabs(right[i]));
    if (!is_close) ++answer.flagged;
  }
  answer.accepts = answer.flagged == 0;
  return answer;
}

/// "_DTYPE_PRECISIONS" of torch/testing/_comparison.py. tf32 is stored as fp32.
std::optional<Tolerance> torch_default(Element element) {
  switch (element) {
    case Element::fp16:
      return Tolerance{1e-3, 1e-5};
    case Element::bf16:
      return Tolerance{1.6e-2, 1e-5};
    case Element::fp32:
    case Element::tf32:
      return Tolerance{1.3e-6, 1e-5};
    case Element::fp64:
      return Tolerance{1e-7, 1e-7};
    default:
      return std::nullopt;
  }
}

/// Formats without figures, and integers, have to be equal: rtol = atol = 0 there.
RivalAnswer by_assert_close(const RivalCase&, const RivalOutput& out) {
  return close_as_torch(out.got, out.expected,
                        torch_default(out.element).value_or(Tolerance{0, 0}));
}

/// torch.nn.functional.cosine_similarity of the flattened tensors in wider numbers, both scaled by
/// their largest number first, lest squares overflow. An output of zeros is like nothing.
RivalAnswer by_cosine(const RivalCase&, const RivalOutput& out) {
  if (!is_float(out.element)) return not_for("a tensor of numbers is asked for");
  if (out.got.size() < 2) return not_for("the cosine of single numbers is their sign");
  double top_got = 0, top_right = 0;
  for (std::size_t i = 0; i < out.got.size(); ++i) {
    top_got = std::fmax(top_got, std::fabs(out.got[i]));
    top_right = std::fmax(top_right, std::fabs(out.exact[i]));
  }
  const bool is_finite = std::ranges::all_of(out.exact, [](double x) { return std::isfinite(x); });
  if (top_right == 0 || !is_finite) return not_for("what is right has no direction");
  double dot = 0, of_got = 0, of_right = 0;
  for (std::size_t i = 0; i < out.got.size(); ++i) {
    const double g = out.got[i] / top_got, r = out.exact[i] / top_right;
    dot += g * r;
    of_got += g * g;
    of_right += r * r;
  }
  RivalAnswer answer;
  answer.accepts = dot / std::sqrt(of_got * of_right) > 0.99;
  if (!answer.accepts) answer.flagged = out.got.size();
  return answer;
}

namespace {

/// x - log sum exp(x) of a row; probabilities come as their logarithms.
std::vector<double> log_distribution(std::span<const double> row, bool are_probabilities) {
  std::vector<double> x(row.begin(), row.end());
  if (are_probabilities)
    for (double& v : x) v = std::log(v);
  double top = -INFINITY, sum = 0;
  for (const double v : x) top = std::fmax(top, v);
  for (const double v : x) sum += std::exp(v - top);
  for (double& v : x) v -= top + std::log(sum);
  return x;
}

}  // namespace

/// sum p (log p - log q) over the last axis, p the reference's distribution and q the output's, for
/// outputs that are logits or probabilities. What is not a number is not below the limit.
RivalAnswer by_divergence(const RivalCase& c, const RivalOutput& out) {
  const bool is_softmax = c.op->name == "softmax" && c.is_forward();
  const bool is_logits = c.op->name == "matmul" && c.is_forward();
  if (!is_softmax && !is_logits) return not_for("no distribution and no logits");
  const bool are_probabilities = is_softmax && !std::get<bool>(c.attribute("log"));
  const auto n = static_cast<std::size_t>(out.columns);
  RivalAnswer answer;
  for (std::size_t first = 0; n > 0 && first < out.got.size(); first += n) {
    const auto p = log_distribution(std::span(out.exact).subspan(first, n), are_probabilities);
    const auto q = log_distribution(std::span(out.got).subspan(first, n), are_probabilities);
    double divergence = 0;
    for (std::size_t j = 0; j < n; ++j)
      if (const double weight = std::exp(p[j]); weight != 0) divergence += weight * (p[j] - q[j]);
    if (!(divergence <= 1e-3)) answer.flagged += n;
  }
  answer.accepts = answer.flagged == 0;
  return answer;
}

}  // namespace detail
}  // namespace opbound
