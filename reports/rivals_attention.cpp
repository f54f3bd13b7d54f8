// flash-attention's rule, and PyTorch's attention in 16 bits that it compares with: attention_ref
// of tests/test_flash_attn.py with upcast=False and reorder_ops=True, differentiated by autograd.
// Every operation stores its result in the 16-bit format; products and softmax add in fp32.
#include <cmath>
#include <limits>

#include "reports/rivals.hpp"

namespace opbound::detail {
namespace {

using Values = std::vector<double>;

/// One head's attention; matrices are row-major.
class Head {
 public:
  Head(const RivalCase& c, std::int64_t head) : c_(c), sizes_(c.call->sizes), head_(head) {
    const double given = std::get<double>(c.attribute("scale"));
    scale_ = given == 0 ? 1 / std::sqrt(static_cast<double>(d())) : given;
    q_ = matrix("q", head_, queries());
    v_ = matrix("v", key_head(), keys());
    scaled_k_ = matrix("k", key_head(), keys());
    for (double& x : scaled_k_) x = stored(x * scale_);
    fill_probabilities();
  }

  std::int64_t key_head() const { return head_ * sizes_[1] / sizes_[0]; }

  Values output() const {
    return product(
        queries(), keys(), d(), [&](std::int64_t i, std::int64_t j) { return p(i, j); },
        [&](std::int64_t j, std::int64_t e) { return v_[at(j, e)]; });
  }
  /// dq, or what this head adds to dk or dv.
  Values gradient(std::string_view tensor) const {
    const Values g = matrix("do", head_, queries());
    if (tensor == "dv")
      return product(
          keys(), queries(), d(), [&](std::int64_t j, std::int64_t i) { return p(i, j); },
          [&](std::int64_t i, std::int64_t e) { return g[at(i, e)]; });
    const Values ds = scores_gradient(g);
    const auto of = [&](std::int64_t i, std::int64_t j) {
      return ds[static_cast<std::size_t>(i * keys() + j)];
    };
    if (tensor == "dq")
      return product(queries(), keys(), d(), of,
                     [&](std::int64_t j, std::int64_t e) { return scaled_k_[at(j, e)]; });
    Values dk = product(
        keys(), queries(), d(), [&](std::int64_t j, std::int64_t i) { return of(i, j); },
        [&](std::int64_t i, std::int64_t e) { return q_[at(i, e)]; });
    for (double& x : dk) x = stored(x * scale_);
    return dk;
  }

 private:
  std::int64_t queries() const { return sizes_[2]; }
  std::int64_t keys() const { return sizes_[3]; }
  std::int64_t d() const { return sizes_[4]; }
  std::size_t at(std::int64_t row, std::int64_t column) const {
    return static_cast<std::size_t>(row * d() + column);
  }
  double p(std::int64_t i, std::int64_t j) const {
    return probabilities_[static_cast<std::size_t>(i * keys() + j)];
  }
  double stored(double x) const { return round_to(c_.precision.storage, static_cast<float>(x)); }

  Values matrix(std::string_view tensor, std::int64_t head, std::int64_t rows) const {
    const TensorView view = c_.tensor(tensor);
    Values m(static_cast<std::size_t>(rows * d()));
    for (std::int64_t i = 0; i < rows * d(); ++i)
      m[static_cast<std::size_t>(i)] = view.at(head * rows * d() + i);
    return m;
  }

  /// sum over k of a(i, k) b(k, j), added in fp32.
  template <class A, class B>
  Values product(std::int64_t rows, std::int64_t inner, std::int64_t columns, A a, B b) const {
    Values m(static_cast<std::size_t>(rows * columns));
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) {
        float sum = 0;
        for (std::int64_t k = 0; k < inner; ++k)
          sum += static_cast<float>(a(i, k)) * static_cast<float>(b(k, j));
        m[static_cast<std::size_t>(i * columns + j)] = stored(sum);
      }
    return m;
  }

  bool is_masked(const std::string& mask, std::int64_t i, std::int64_t j) const {
    if (mask == "boolean") {
      const TensorView m = c_.tensor("mask");
      return load_index(m.element, m.data, m.offset(i * keys() + j)) == 0;
    }
    if (mask != "causal") return false;
    const bool from_last = std::get<std::string>(c_.attribute("causal_from")) == "last_key";
    return j > i + (from_last ? keys() - queries() : 0);
  }

  /// softmax of the stored scores; a row that sees no key is 0.
  void fill_probabilities() {
    const auto mask = std::get<std::string>(c_.attribute("mask"));
    probabilities_ = product(
        queries(), d(), keys(), [&](std::int64_t i, std::int64_t e) { return q_[at(i, e)]; },
        [&](std::int64_t e, std::int64_t j) { return scaled_k_[at(j, e)]; });
    for (std::int64_t i = 0; i < queries(); ++i) {
      double* row = probabilities_.data() + i * keys();
      float top = -std::numeric_limits<float>::infinity(), sum = 0;
      for (std::int64_t j = 0; j < keys(); ++j) {
        if (mask == "additive") row[j] = stored(row[j] + c_.tensor("bias").at(i * keys() + j));
        if (is_masked(mask, i, j)) row[j] = -std::numeric_limits<double>::infinity();
        top = std::fmax(top, static_cast<float>(row[j]));
      }
      for (std::int64_t j = 0; j < keys(); ++j) sum += std::exp(static_cast<float>(row[j]) - top);
      const bool sees_none = std::isinf(top) && top < 0;
      for (std::int64_t j = 0; j < keys(); ++j)
        row[j] = sees_none ? 0 : stored(std::exp(static_cast<float>(row[j]) - top) / sum);
    }
  }

  /// dS = P (dP - sum P dP), dP = dO V^T.
  Values scores_gradient(const Values& g) const {
    Values ds = product(
        queries(), d(), keys(), [&](std::int64_t i, std::int64_t e) { return g[at(i, e)]; },
        [&](std::int64_t e, std::int64_t j) { return v_[at(j, e)]; });
    for (std::int64_t i = 0; i < queries(); ++i) {
      double* row = ds.data() + i * keys();
      float sum = 0;
      for (std::int64_t j = 0; j < keys(); ++j) sum += static_cast<float>(row[j] * p(i, j));
      for (std::int64_t j = 0; j < keys(); ++j) row[j] = stored((row[j] - sum) * p(i, j));
    }
    return ds;
  }

  const RivalCase& c_;
  const Sizes& sizes_;
  std::int64_t head_;
  double scale_ = 1;
  Values q_, scaled_k_, v_, probabilities_;
};

}  // namespace

/// Heads of queries that share a head of keys add their gradients, and store the sum.
std::vector<double> attention_in_16_bits(const RivalCase& c, std::string_view tensor) {
  const Sizes& z = c.call->sizes;
  const bool is_of_keys = tensor == "dk" || tensor == "dv";
  Values all;
  std::int64_t last = -1;
  for (std::int64_t h = 0; h < z[0]; ++h) {
    const Head head(c, h);
    const Values own = tensor == "o" ? head.output() : head.gradient(tensor);
    if (!is_of_keys || head.key_head() != last) {
      last = head.key_head();
      all.insert(all.end(), own.begin(), own.end());
      continue;
    }
    double* sums = all.data() + all.size() - own.size();
    for (std::size_t i = 0; i < own.size(); ++i) sums[i] += own[i];
  }
  for (double& x : all) x = round_to(c.precision.storage, x);
  return all;
}

/// max |got - reference| <= 2 max |PyTorch's - reference|, of o and of each gradient; the reference
/// is computed in fp32 and stored in the 16-bit format.
RivalAnswer by_flash_attention(const RivalCase& c, const RivalOutput& out) {
  if (c.op->name != "attention" || out.tensor == "lse") return not_for("a rule for attention");
  if (out.element != Element::fp16 && out.element != Element::bf16)
    return not_for("a rule for 16 bits");
  const std::vector<double> torch = attention_in_16_bits(c, out.tensor);
  double allowed = 0;
  for (std::size_t i = 0; i < torch.size(); ++i) {
    const double error = std::fabs(torch[i] - out.expected[i]);
    allowed = error > allowed || std::isnan(error) ? error : allowed;
  }
  RivalAnswer answer;
  for (std::size_t i = 0; i < out.got.size(); ++i)
    if (!(std::fabs(out.got[i] - out.expected[i]) <= 2 * allowed)) ++answer.flagged;
  answer.accepts = answer.flagged == 0;
  return answer;
}

}  // namespace opbound::detail
