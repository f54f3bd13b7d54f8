// cuBLAS's matrices lie column by column, opbound's outputs mostly row by row: what it computes
// then is the transpose, d^T = b^T a^T, in which a bias of columns is one of rows, as its epilogue
// has it.
#include "ops/providers/cublas/matmul.hpp"

#include <algorithm>
#include <string_view>

#include "ops/providers/cublas/units.hpp"

namespace opbound::with_cublas {
namespace {

bool is_empty(const opbound_tensor& t) {
  return std::any_of(t.size, t.size + t.rank, [](std::int64_t n) { return n == 0; });
}

cublasComputeType_t compute_in_fp32(const Call& c, const Settings& settings) {
  switch (c.tensor("a").element) {
    case OPBOUND_FP64:
      throw Unsupported("it computes fp64 in fp64, nothing else");
    case OPBOUND_TF32:
      return CUBLAS_COMPUTE_32F_FAST_TF32;
    case OPBOUND_FP32:
      require(settings.tf32 || !is_unit(c.variant()),
              "fp32 in matrix units is a setting: OPBOUND_CUBLAS_TF32=on");
      require(!settings.tf32 || is_unit(c.variant()),
              "OPBOUND_CUBLAS_TF32=on cuts fp32 to tf32, which only a matrix unit's variant is");
      return settings.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    default:
      return CUBLAS_COMPUTE_32F;
  }
}

/// A product without its tensors: how it computes.
Product arithmetic_of(const Call& c, const Settings& settings) {
  Product p;
  p.only_units = is_unit(c.variant());
  p.fast = settings.fast && is_fp8(type_of(c.tensor("a").element));
  switch (c.get().compute) {
    case OPBOUND_FP64:
      p.compute = CUBLAS_COMPUTE_64F;
      p.scale = CUDA_R_64F;
      break;
    case OPBOUND_FP32:
      p.compute = compute_in_fp32(c, settings);
      break;
    case OPBOUND_FP16:
      p.compute = CUBLAS_COMPUTE_16F;
      p.scale = CUDA_R_16F;
      break;
    default:
      throw Unsupported("it adds in fp64, fp32 and fp16 only");
  }
  require(!p.only_units || c.get().compute == OPBOUND_FP32, "a matrix unit's variant adds in fp32");
  return p;
}

void require_no_tf32(const opbound_tensor& output) {
  require(output.element != OPBOUND_TF32,
          "it stores " + std::string(output.name) + " with all of fp32's digits, not as tf32");
}

/// A factor as the product reads it: which axis of the tensor is its rows'.
struct Operand {
  const opbound_tensor& tensor;
  int row, column;

  Matrix matrix() const { return factor(tensor, row, column); }
  Matrix transposed() const { return factor(tensor, column, row); }
};

/// d = first second, of which no bias and no c are known yet.
void put_product(Product& p, const Operand& first, const Operand& second, const opbound_tensor& d) {
  require_no_tf32(d);
  if (lies_by_columns(d)) {
    p.a = first.matrix();
    p.b = second.matrix();
    p.d = by_columns(d);
    p.is_turned = false;
  } else {
    p.a = second.transposed();
    p.b = first.transposed();
    p.d = by_rows(d);
    p.is_turned = true;
  }
  p.c = p.d;
  if (!is_fp8(p.d.type)) return;
  p.c.type = CUDA_R_16BF;  // c is never in fp8, even where there is none
  p.c.data = nullptr;
}

/// What belongs to d's rows or columns is known for outputs that lie row by row.
void require_turned(const Product& p, const char* what) {
  require(p.is_turned, std::string("its output lies column by column, where it takes no ") + what);
}

void add_bias(Product& p, const opbound_tensor& bias) {
  require_turned(p, "bias");
  const bool is_narrow = is_fp8(p.a.type) && (is_fp8(p.d.type) || p.d.type == CUDA_R_32F);
  const cudaDataType_t wanted = is_narrow ? CUDA_R_16BF : p.d.type;
  const cudaDataType_t type = type_of(bias.element);
  require(type == wanted, "its bias is in " + name_of(wanted) + " where d is in " +
                              name_of(p.d.type) + ", not in " + name_of(type));
  require_packed(bias);
  p.epilogue = CUBLASLT_EPILOGUE_BIAS;
  p.bias = bias.data;
}

Plan forward(const Call& c, const Settings& settings) {
  const opbound_tensor &a = c.tensor("a"), &b = c.tensor("b"), &d = c.tensor("d");
  Product p = arithmetic_of(c, settings);
  if (is_empty(d)) return {};
  require(!is_empty(a), "it takes no sum of nothing");
  put_product(p, {a, 0, 1}, {b, 0, 1}, d);
  p.alpha = c.number("alpha");
  if (const opbound_tensor* matrix = c.find("c"); matrix != nullptr) {
    require_turned(p, "c");
    p.beta = c.number("beta");
    p.c = by_rows(*matrix, /*may_repeat=*/true);
  }
  require_formats(p);
  if (const opbound_tensor* bias = c.find("bias"); bias != nullptr) add_bias(p, *bias);
  if (c.flag("scaled")) {
    require_turned(p, "scales");
    require(is_fp8(p.a.type), "it has scales of rows and columns for fp8 only");
    require(!is_fp8(p.d.type), "it gives no fp8 where rows and columns have scales");
    require_packed(c.tensor("scale_a"));
    require_packed(c.tensor("scale_b"));
    p.scale_a = c.tensor("scale_b").data;
    p.scale_b = c.tensor("scale_a").data;
  }
  return {{p}, {}};
}

/// dbias = the sums over dd's columns, which an epilogue of db's product adds on the way.
void add_bias_gradient(Product& p, const opbound_tensor& dbias) {
  require_turned(p, "gradient of a bias");
  require(p.alpha == 1, "whether alpha scales its gradient of a bias is not documented");
  require(!p.a.is_transposed, "it sums a bias's gradient only where dd lies row by row");
  require(!is_fp8(p.a.type), "it has no gradient of a bias in fp8");
  require(type_of(dbias.element) == p.d.type, "its dbias is in " + name_of(p.d.type) +
                                                  ", as db, not in " +
                                                  name_of(type_of(dbias.element)));
  require_no_tf32(dbias);
  require_packed(dbias);
  p.epilogue = CUBLASLT_EPILOGUE_BGRADA;
  p.bias = dbias.data;
}

Scaling gradient_of_c(const Call& c, const opbound_tensor& dc) {
  require_no_tf32(dc);
  Scaling s{by_rows(c.tensor("dd")), by_rows(dc), c.number("beta"), CUDA_R_32F};
  require(!is_fp8(s.from.type) && !is_fp8(s.to.type), "it scales no matrix in fp8");
  if (s.from.type == CUDA_R_64F) s.scale = CUDA_R_64F;
  return s;
}

/// da = alpha dd b^T and db = alpha a^T dd, transposed both.
Plan backward(const Call& c, const Settings& settings) {
  require(!c.flag("scaled"), "it has no scales along a sum");
  const opbound_tensor &a = c.tensor("a"), &b = c.tensor("b"), &dd = c.tensor("dd");
  const opbound_tensor &da = c.tensor("da"), &db = c.tensor("db");
  const opbound_tensor *dc = c.find("dc"), *dbias = c.find("dbias");
  Product p = arithmetic_of(c, settings);
  p.alpha = c.number("alpha");
  Plan plan;
  if (!is_empty(da)) {
    require(!is_empty(dd), "it takes no sum of nothing");
    put_product(p, {dd, 0, 1}, {b, 1, 0}, da);
    require_formats(p);
    plan.products.push_back(p);
  }
  if (!is_empty(db)) {
    require(!is_empty(dd), "it takes no sum of nothing");
    put_product(p, {a, 1, 0}, {dd, 0, 1}, db);
    require_formats(p);
    if (dbias != nullptr) add_bias_gradient(p, *dbias);
    plan.products.push_back(p);
  } else {
    require(dbias == nullptr || is_empty(*dbias),
            "it sums a bias's gradient only beside a product");
  }
  if (dc != nullptr && !is_empty(*dc)) plan.scaling = gradient_of_c(c, *dc);
  return plan;
}

void run(const Scaling& s, cudaStream_t stream) {
  cublasLtMatrixTransformDesc_t made = nullptr;
  check(cublasLtMatrixTransformDescCreate(&made, s.scale), "cublasLtMatrixTransformDescCreate");
  const Transform transform(made);
  const Layout from = layout_of(s.from), to = layout_of(s.to);
  const Scalar by(s.scale, s.by), nothing(s.scale, 0);
  check(cublasLtMatrixTransform(handle(), transform.get(), by.address(), s.from.data, from.get(),
                                nothing.address(), nullptr, nullptr, s.to.data, to.get(), stream),
        "cublasLtMatrixTransform");
}

}  // namespace

Plan plan_of(const opbound_call& call, const Settings& settings) {
  require(std::string_view(call.op) == "matmul", "no kernel for " + std::string(call.op));
  const Call c(call);
  return c.is_backward() ? backward(c, settings) : forward(c, settings);
}

std::size_t workspace_bytes(const Plan& plan, const Settings& settings) {
  std::size_t most = 0;
  for (const Product& p : plan.products)
    most = std::max(most, ChosenProduct(p, settings, settings.workspace_bytes).workspace_bytes());
  return most;
}

void run(const Plan& plan, const Settings& settings, const opbound_call& call) {
  auto* stream = static_cast<cudaStream_t>(call.stream);
  const std::uint64_t most = std::min<std::uint64_t>(settings.workspace_bytes, call.workspace_size);
  for (const Product& p : plan.products)
    ChosenProduct(p, settings, most).launch(call.workspace, call.workspace_size, stream);
  if (plan.scaling) run(*plan.scaling, stream);
}

}  // namespace opbound::with_cublas
