// Rules whose figures are typed by operator and format.
#include <array>
#include <cmath>

#include "reports/rivals.hpp"

namespace opbound::detail {
namespace {

constexpr std::string_view no_figure = "its tests have no figure for this operator and format";

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  for (const std::string_view w : words)
    if (w == word) return true;
  return false;
}

/// Either of two figures suffices, and below fp32 a neighbour does where a number a millionth away
/// from the middle of both rounds to either: compareResults of tests/cpp/test_common.cu. NaN is
/// beyond no figure there.
RivalAnswer compare_results(const RivalOutput& out, const Tolerance& t) {
  const Format format = format_of(out.element);
  RivalAnswer answer;
  for (std::size_t i = 0; i < out.got.size(); ++i) {
    const double got = out.got[i], right = out.expected[i], error = std::fabs(got - right);
    const bool differs =
        error > t.atol && (right == 0 || std::fabs((got - right) / right) > t.rtol);
    if (!differs) continue;
    const double middle = (got + right) / 2, away = std::fabs(middle) * 1e-6;
    const bool are_neighbours = out.element != Element::fp32 &&
                                round_to(format, middle - away) == std::fmin(got, right) &&
                                round_to(format, middle + away) == std::fmax(got, right);
    if (!are_neighbours) ++answer.flagged;
  }
  answer.accepts = answer.flagged == 0;
  return answer;
}

/// getTolerances of tests/cpp/test_common.cu; nothing for fp64.
std::optional<Tolerance> of_te_type(Element e) {
  switch (e) {
    case Element::fp32:
      return Tolerance{5e-6, 1e-6};
    case Element::fp16:
      return Tolerance{1e-3, 1e-5};
    case Element::bf16:
      return Tolerance{1e-2, 1e-5};
    case Element::e4m3:
    case Element::e5m2:
      return Tolerance{1e-2, 1e-2};
    default:
      return std::nullopt;
  }
}

/// dtype_tols of tests/pytorch/utils.py.
std::optional<Tolerance> of_te_dtype(Element e) {
  if (e == Element::e4m3) return Tolerance{0.125, 0.0675};
  if (e == Element::e5m2) return Tolerance{0.25, 0.125};
  return torch_default(e);
}

/// test_normalization.cu.
RivalAnswer te_norm(const RivalCase& c, const RivalOutput& out) {
  if (!c.is_forward()) return compare_results(out, {5e-4, 5e-4});
  if (out.tensor != "y")
    return out.element == Element::fp32 ? compare_results(out, {5e-5, 1e-6}) : not_for(no_figure);
  auto t = of_te_type(out.element);
  if (!t) return not_for(no_figure);
  if (out.element == Element::fp32) t->atol = 5e-7;
  return compare_results(out, *t);
}

/// test_softmax.cu, in 16 bits only.
RivalAnswer te_softmax(const RivalCase& c, const RivalOutput& out) {
  const bool is_16_bits = out.element == Element::fp16 || out.element == Element::bf16;
  if (!is_16_bits || std::get<bool>(c.attribute("log"))) return not_for(no_figure);
  Tolerance t = of_te_type(out.element).value();
  t.atol = out.element == Element::bf16 ? 2e-3 : 1e-4;
  return compare_results(out, t);
}

}  // namespace

/// Its C++ tests compare with a reference of the output's type by getTolerances; those of its
/// fusible operations (test_fusible_ops.py) with fp64 by dtype_tols, products in fp32 by fp16's.
RivalAnswer by_transformer_engine(const RivalCase& c, const RivalOutput& out) {
  const std::string_view op = c.op->name;
  if (!is_float(out.element)) return not_for(no_figure);
  if (is_one_of(op, {"layer_norm", "rms_norm"})) return te_norm(c, out);
  if (op == "softmax") return te_softmax(c, out);
  if (is_one_of(op, {"gelu", "swiglu"})) {
    const auto t = of_te_type(out.element);
    return t ? compare_results(out, *t) : not_for(no_figure);
  }
  if (!is_one_of(op, {"matmul", "bias", "residual", "dropout"})) return not_for(no_figure);
  const bool is_fp32_product = op == "matmul" && out.element == Element::fp32;
  const auto t = of_te_dtype(is_fp32_product ? Element::fp16 : out.element);
  return t ? close_as_torch(out.got, out.exact, *t) : not_for(no_figure);
}

/// assert_close with these figures; where its tests name none, or use TestCase.assertEqual, with
/// PyTorch's own.
RivalAnswer by_apex(const RivalCase& c, const RivalOutput& out) {
  const std::string_view op = c.op->name;
  const Element e = out.element;
  const auto defaults = torch_default(e);
  const bool is_norm = is_one_of(op, {"layer_norm", "rms_norm"});
  const bool is_softmax = op == "softmax" && c.is_forward();
  const bool is_rope = op == "rope" && e != Element::fp64;
  const bool is_known = is_norm ? !is_one_of(out.tensor, {"mean", "rstd"}) && e != Element::fp64
                                : is_softmax || is_rope || op == "adamw" ||
                                      (op == "gelu" && e == Element::fp16 && c.is_forward());
  if (!defaults || !is_known) return not_for(no_figure);
  if (is_softmax && e != Element::fp16 && e != Element::bf16) return not_for(no_figure);
  Tolerance t = *defaults;
  if (op == "adamw" || op == "gelu") t = {1e-3, 1e-3};
  if (is_norm && e == Element::bf16)
    t = {1.6e-2, c.is_forward() ? 3e-4 : op == "layer_norm" ? 3e-3 : 3e-2};
  if (op == "layer_norm" && e == Element::fp16) t = {1e-3, 1e-3};
  if (op == "rms_norm" && e == Element::fp16 && !c.is_forward()) t = {1.6e-2, 3e-3};
  if (op == "rms_norm" && e == Element::fp32 && !c.is_forward()) t = {2e-3, 2e-4};
  return close_as_torch(out.got, out.expected, t);
}

namespace {

/// Figures of Liger's tests: fp32, then bf16 where they have it.
struct LigerFigures {
  std::string_view op;
  Tolerance in_fp32;
  std::optional<Tolerance> in_bf16;
};

constexpr std::array<LigerFigures, 8> liger_figures{{
    {"layer_norm", {1e-5, 1e-5}, std::nullopt},
    {"rms_norm", {1e-6, 1e-4}, Tolerance{2e-2, 2e-1}},
    {"softmax", {1e-5, 1e-5}, Tolerance{5e-2, 5e-2}},
    {"swiglu", {1e-5, 1}, Tolerance{1e-2, 1e4}},
    {"gelu", {1e-6, 1e-6}, Tolerance{1e-3, 1e-3}},
    {"rope", {1e-5, 1e-5}, Tolerance{1e-5, 1e-1}},
    {"embedding", {1e-5, 1e-6}, std::nullopt},
    {"cross_entropy", {1e-6, 1e-8}, Tolerance{5e-2, 1e-8}},
}};

}  // namespace

/// torch.allclose(reference, output): |output - reference| <= atol + rtol |output|.
RivalAnswer by_liger(const RivalCase& c, const RivalOutput& out) {
  const bool is_statistic = is_one_of(out.tensor, {"mean", "rstd", "lse"});
  for (const LigerFigures& f : liger_figures) {
    if (f.op != c.op->name || is_statistic) continue;
    if (out.element == Element::fp32) return close_as_torch(out.expected, out.got, f.in_fp32);
    if (out.element == Element::bf16 && f.in_bf16)
      return close_as_torch(out.expected, out.got, *f.in_bf16);
  }
  return not_for(no_figure);
}

}  // namespace opbound::detail
