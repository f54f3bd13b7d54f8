// Matrix products.
#include "ops/providers/torch/autograd.hpp"
#include "ops/providers/torch/kernels.hpp"

namespace opbound::with_torch {
namespace {

/// mm; linear, which adds the bias; addmm with alpha and beta, to which a bias is added in a kernel
/// of its own.
at::Tensor product(const Call& c, const at::Tensor& a, const at::Tensor& b,
                   const at::Tensor& matrix, const at::Tensor& bias) {
  const double alpha = c.number("alpha");
  if (matrix.defined()) {
    require(!bias.defined() || a.element_size() > 2,
            "it stores beta c + a b before it adds a bias");
    const at::Tensor sum = at::addmm(matrix, a, b, c.number("beta"), alpha);
    return bias.defined() ? sum + bias : sum;
  }
  if (alpha == 1) return bias.defined() ? at::linear(a, b.t(), bias) : at::mm(a, b);
  const at::Tensor added = bias.defined() ? bias : at::zeros({1}, a.options());
  return at::addmm(added, a, b, bias.defined() ? 1 : 0, alpha);
}

/// The backward pass is not given c and bias, whose values it does not need.
at::Tensor stand_in(const Call& c, const char* gradient) {
  if (!c.has(gradient)) return {};
  const at::Tensor shape = c.tensor(gradient);
  return at::zeros_like(shape).requires_grad_(true);
}

void matmul(const Call& c) {
  require(!c.is_backward() || c.number("alpha") == 1 || c.tensor("a").element_size() > 2,
          "it stores the gradients' products before it multiplies by alpha");
  require(!c.flag("scaled"), "it scales fp8 products on CUDA only, with formats of its own");
  const at::Tensor a = leaf(c, "a"), b = leaf(c, "b");
  if (!c.is_backward()) return c.give("d", product(c, a, b, c.tensor("c"), c.tensor("bias")));
  const at::Tensor matrix = stand_in(c, "dc"), bias = stand_in(c, "dbias");
  std::vector<at::Tensor> leaves{a, b};
  std::vector<const char*> names{"da", "db"};
  if (matrix.defined()) leaves.push_back(matrix), names.push_back("dc");
  if (bias.defined()) leaves.push_back(bias), names.push_back("dbias");
  const auto d = gradients(product(c, a, b, matrix, bias), c.tensor("dd"), leaves);
  for (std::size_t i = 0; i < d.size(); ++i) c.give(names[i], d[i]);
}

}  // namespace

// BLAS and oneDNN sum in any order, which the bound allows; a sum in parts is a sum in some order.
void add_products(Kernels& kernels) {
  kernels.push_back({"matmul", nullptr, "sequential", in_fp32_since_2, matmul});
}

}  // namespace opbound::with_torch
