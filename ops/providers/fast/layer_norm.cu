// Layer normalisation, two passes over a row that is in registers; the gradients of weight and bias
// are added on the way, a warp's rows first, then a block's warps, then blocks.
#include <algorithm>

#include "ops/providers/fast/numbers.cuh"

namespace opbound::fast {
namespace {

constexpr int warps = 8;               // of a block; each takes rows
constexpr int most_chunks = 4;         // of 256 columns, which a warp has in registers
constexpr unsigned most_blocks = 264;  // two on each of an H200's multiprocessors

struct Rows {
  std::int64_t rows, n;
  Vector gamma, beta;  ///< without data: none
  float size;          ///< n
};

/// What a lane has of a row: of columns 256 c + 8 t + k, in packs; or, `chunks` being 0, all j = t
/// (mod 32), read again each time.
template <class X, int chunks>
struct Row {
  float at[chunks * lane];

  __device__ void load(const X* row, int t) {
    for (int c = 0; c < chunks; ++c) {
      const auto pack = reinterpret_cast<const Pack<X, lane>*>(row)[c * 32 + t];
      for (int k = 0; k < lane; ++k) at[c * lane + k] = wide(pack.at[k]);
    }
  }
  __device__ void load(const Vector& v, int t, float otherwise) {
    for (int c = 0; c < chunks; ++c)
      for (int k = 0; k < lane; ++k)
        at[c * lane + k] =
            v.data == nullptr ? otherwise : v.get((c * 32 + t) * std::int64_t{lane} + k);
  }
  __device__ void store(X* row, int t) const {
    for (int c = 0; c < chunks; ++c) {
      Pack<X, lane> pack;
      for (int k = 0; k < lane; ++k) pack.at[k] = narrow<X>(at[c * lane + k]);
      reinterpret_cast<Pack<X, lane>*>(row)[c * 32 + t] = pack;
    }
  }
};

template <class X, int chunks>
__global__ void __launch_bounds__(warps * 32)
    forward_packed(const X* x, X* y, Vector mean, Vector rstd, Rows r, float eps) {
  const int t = static_cast<int>(threadIdx.x) % 32;
  Row<float, chunks> gamma, beta;
  gamma.load(r.gamma, t, 1);
  beta.load(r.beta, t, 0);
  for (std::int64_t row = std::int64_t{blockIdx.x} * warps + threadIdx.x / 32; row < r.rows;
       row += std::int64_t{gridDim.x} * warps) {
    Row<X, chunks> v;
    v.load(x + row * r.n, t);
    float sum = v.at[0];
    for (int j = 1; j < chunks * lane; ++j) sum = sum + v.at[j];
    const float m = warp_sum(sum) / r.size;
    float squares = 0;
    for (int j = 0; j < chunks * lane; ++j) {
      v.at[j] = v.at[j] - m;
      squares = squares + v.at[j] * v.at[j];
    }
    const float factor = 1.0f / sqrtf(warp_sum(squares) / r.size + eps);
    for (int j = 0; j < chunks * lane; ++j) {
      float out = v.at[j] * factor;
      if (r.gamma.data != nullptr) out = out * gamma.at[j];
      v.at[j] = r.beta.data != nullptr ? out + beta.at[j] : out;
    }
    v.store(y + row * r.n, t);
    if (t == 0) {
      mean.put(row, m);
      rstd.put(row, factor);
    }
  }
}

/// Rows of any length, read again for each pass.
template <class X>
__global__ void forward_rows(const X* x, X* y, Vector mean, Vector rstd, Rows r, float eps) {
  const int t = static_cast<int>(threadIdx.x) % 32;
  for (std::int64_t row = std::int64_t{blockIdx.x} * warps + threadIdx.x / 32; row < r.rows;
       row += std::int64_t{gridDim.x} * warps) {
    const X* const from = x + row * r.n;
    float sum = 0, squares = 0;
    for (std::int64_t j = t; j < r.n; j += 32) sum = sum + wide(from[j]);
    const float m = warp_sum(sum) / r.size;
    for (std::int64_t j = t; j < r.n; j += 32) {
      const float centred = wide(from[j]) - m;
      squares = squares + centred * centred;
    }
    const float factor = 1.0f / sqrtf(warp_sum(squares) / r.size + eps);
    for (std::int64_t j = t; j < r.n; j += 32) {
      float out = (wide(from[j]) - m) * factor;
      if (r.gamma.data != nullptr) out = out * r.gamma.get(j);
      if (r.beta.data != nullptr) out = out + r.beta.get(j);
      y[row * r.n + j] = narrow<X>(out);
    }
    if (t == 0) {
      mean.put(row, m);
      rstd.put(row, factor);
    }
  }
}

/// dx, and each block's share of dgamma and dbeta at parts[2 blockIdx.x], parts[2 blockIdx.x + 1].
template <class X, int chunks>
__global__ void __launch_bounds__(warps * 32)
    backward_packed(const X* x, const X* dy, X* dx, Vector mean, Vector rstd, Rows r,
                    float* parts) {
  constexpr int own = chunks * lane;
  __shared__ float shared[warps * 256];  // a chunk of every warp
  const int t = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  Row<float, chunks> gamma;
  gamma.load(r.gamma, t, 1);
  float dgamma[own] = {}, dbeta[own] = {};
  for (std::int64_t row = std::int64_t{blockIdx.x} * warps + warp; row < r.rows;
       row += std::int64_t{gridDim.x} * warps) {
    Row<X, chunks> v, d;
    v.load(x + row * r.n, t);
    d.load(dy + row * r.n, t);
    const float m = mean.get(row), factor = rstd.get(row);
    float sum = 0, dot = 0;
    for (int j = 0; j < own; ++j) {
      v.at[j] = (v.at[j] - m) * factor;  // xhat
      dgamma[j] = dgamma[j] + d.at[j] * v.at[j];
      dbeta[j] = dbeta[j] + d.at[j];
      if (r.gamma.data != nullptr) d.at[j] = d.at[j] * gamma.at[j];
      sum = sum + d.at[j];
      dot = dot + d.at[j] * v.at[j];
    }
    const float sum_mean = warp_sum(sum) / r.size, dot_mean = warp_sum(dot) / r.size;
    for (int j = 0; j < own; ++j) v.at[j] = factor * ((d.at[j] - sum_mean) - v.at[j] * dot_mean);
    v.store(dx + row * r.n, t);
  }
  for (int which = 0; which < 2; ++which) {
    float* const to = parts + (2 * std::int64_t{blockIdx.x} + which) * r.n;
    for (int c = 0; c < chunks; ++c) {
      __syncthreads();
      for (int k = 0; k < lane; ++k)
        shared[warp * 256 + t * lane + k] = which == 0 ? dgamma[c * lane + k] : dbeta[c * lane + k];
      __syncthreads();
      float total = shared[threadIdx.x];
      for (int w = 1; w < warps; ++w) total = total + shared[w * 256 + threadIdx.x];
      to[c * 256 + threadIdx.x] = total;
    }
  }
}

/// Column j's sum over blocks.
__global__ void add_parts(const float* parts, int blocks, std::int64_t n, Vector dgamma,
                          Vector dbeta) {
  const std::int64_t j = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const bool is_beta = blockIdx.y == 1;
  const Vector& to = is_beta ? dbeta : dgamma;
  if (j >= n || to.data == nullptr) return;
  float sum[4] = {};
  for (int b = 0; b < blocks; ++b)
    sum[b % 4] = sum[b % 4] + parts[(2 * std::int64_t{b} + is_beta) * n + j];
  to.put(j, (sum[0] + sum[1]) + (sum[2] + sum[3]));
}

template <class X>
__global__ void backward_rows(const X* x, const X* dy, X* dx, Vector mean, Vector rstd, Rows r) {
  const int t = static_cast<int>(threadIdx.x) % 32;
  for (std::int64_t row = std::int64_t{blockIdx.x} * warps + threadIdx.x / 32; row < r.rows;
       row += std::int64_t{gridDim.x} * warps) {
    const std::int64_t first = row * r.n;
    const float m = mean.get(row), factor = rstd.get(row);
    const auto xhat = [&](std::int64_t j) { return (wide(x[first + j]) - m) * factor; };
    const auto g = [&](std::int64_t j) {
      const float d = wide(dy[first + j]);
      return r.gamma.data == nullptr ? d : d * r.gamma.get(j);
    };
    float sum = 0, dot = 0;
    for (std::int64_t j = t; j < r.n; j += 32) {
      sum = sum + g(j);
      dot = dot + g(j) * xhat(j);
    }
    const float sum_mean = warp_sum(sum) / r.size, dot_mean = warp_sum(dot) / r.size;
    for (std::int64_t j = t; j < r.n; j += 32)
      dx[first + j] = narrow<X>(factor * ((g(j) - sum_mean) - xhat(j) * dot_mean));
  }
}

/// Columns of any number, each one thread's.
template <class X>
__global__ void backward_columns(const X* x, const X* dy, Vector mean, Vector rstd, Rows r,
                                 Vector dgamma, Vector dbeta) {
  const std::int64_t j = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (j >= r.n) return;
  float sum = 0, dot = 0;
  for (std::int64_t row = 0; row < r.rows; ++row) {
    const float d = wide(dy[row * r.n + j]);
    sum = sum + d;
    dot = dot + d * ((wide(x[row * r.n + j]) - mean.get(row)) * rstd.get(row));
  }
  if (dgamma.data != nullptr) dgamma.put(j, dot);
  if (dbeta.data != nullptr) dbeta.put(j, sum);
}

// ---- host

Vector vector_or_none(const Call& c, const char* name) {
  return c.has(name) ? vector_of(dense(c, name)) : Vector{nullptr, OPBOUND_FP32};
}

struct Problem {
  const Call& c;
  const opbound_tensor& x;
  Rows rows;
  unsigned blocks;
  int chunks = 0;  ///< 0: a length that has no registers

  Problem(const Call& call, const char* like)
      : c(call),
        x(dense(c, "x")),
        rows{x.size[0], x.size[1], vector_or_none(c, "gamma"), vector_or_none(c, "beta"),
             static_cast<float>(x.size[1])},
        blocks(std::min(blocks_for(x.size[0], warps), most_blocks)) {
    require(c.word("eps_format") == "fp64" && c.word("xhat_format") == "fp64",
            "its eps and xhat are as computed");
    require(c.number("weight_offset") == 0, "it has no weight_offset");
    require(dense(c, like).element == x.element, std::string(like) + " in another format than x");
    if (c.word("affine") != "weight_and_bias") rows.beta.data = nullptr;
    if (c.word("affine") == "none") rows.gamma.data = nullptr;
    if (rows.n % 256 == 0 && rows.n <= 256 * most_chunks && is_packed(x))
      chunks = static_cast<int>(rows.n / 256);
  }
  Vector vector(const char* name) const { return vector_of(dense(c, name)); }
};

/// f with the number of chunks as a type.
template <class F>
void with_chunks(int chunks, F f) {
  if (chunks == 1) f(std::integral_constant<int, 1>{});
  if (chunks == 2) f(std::integral_constant<int, 2>{});
  if (chunks == 3) f(std::integral_constant<int, 3>{});
  if (chunks == 4) f(std::integral_constant<int, 4>{});
}

void forward(const Call& c) {
  const Problem p(c, "y");
  if (p.rows.rows * p.rows.n == 0) throw Unsupported("it takes no empty rows");
  const auto eps = static_cast<float>(c.number("eps"));
  const bool packs = p.chunks > 0 && is_packed(c.tensor("y"));
  with_type(p.x.element, [&](auto type) {
    using X = decltype(type);
    const auto* const x = static_cast<const X*>(p.x.data);
    auto* const y = static_cast<X*>(c.tensor("y").data);
    const Vector mean = p.vector("mean"), rstd = p.vector("rstd");
    if (!packs)
      forward_rows<<<blocks_for(p.rows.rows, warps), warps * 32, 0, stream_of(c)>>>(
          x, y, mean, rstd, p.rows, eps);
    else
      with_chunks(p.chunks, [&](auto chunks) {
        forward_packed<X, chunks.value>
            <<<blocks_for(p.rows.rows, 4 * warps), warps * 32, 0, stream_of(c)>>>(x, y, mean, rstd,
                                                                                  p.rows, eps);
      });
  });
  check_launch();
}

std::size_t workspace(const Call& c) {
  if (!c.is_backward()) return 0;
  const Problem p(c, "dy");
  return p.chunks == 0 ? 0 : 2 * most_blocks * static_cast<std::size_t>(p.rows.n) * sizeof(float);
}

void backward(const Call& c) {
  const Problem p(c, "dy");
  if (p.rows.rows * p.rows.n == 0) throw Unsupported("it takes no empty rows");
  require(dense(c, "dx").element == p.x.element, "dx in another format than x");
  const bool packs = p.chunks > 0 && is_packed(c.tensor("dy")) && is_packed(c.tensor("dx"));
  const Vector dgamma = vector_or_none(c, "dgamma"), dbeta = vector_or_none(c, "dbeta");
  const auto columns = static_cast<unsigned>((p.rows.n + 63) / 64);
  with_type(p.x.element, [&](auto type) {
    using X = decltype(type);
    const auto* const x = static_cast<const X*>(p.x.data);
    const auto* const dy = static_cast<const X*>(c.tensor("dy").data);
    auto* const dx = static_cast<X*>(c.tensor("dx").data);
    const Vector mean = p.vector("mean"), rstd = p.vector("rstd");
    if (!packs) {
      backward_rows<<<blocks_for(p.rows.rows, warps), warps * 32, 0, stream_of(c)>>>(
          x, dy, dx, mean, rstd, p.rows);
      backward_columns<<<columns, 64, 0, stream_of(c)>>>(x, dy, mean, rstd, p.rows, dgamma, dbeta);
      return;
    }
    if (c.get().workspace_size < workspace(c)) throw std::runtime_error("too small a workspace");
    auto* const parts = static_cast<float*>(c.get().workspace);
    with_chunks(p.chunks, [&](auto chunks) {
      backward_packed<X, chunks.value>
          <<<p.blocks, warps * 32, 0, stream_of(c)>>>(x, dy, dx, mean, rstd, p.rows, parts);
    });
    add_parts<<<dim3(columns, 2), 64, 0, stream_of(c)>>>(parts, static_cast<int>(p.blocks),
                                                         p.rows.n, dgamma, dbeta);
  });
  check_launch();
}

void layer_norm(const Call& c) { c.is_backward() ? backward(c) : forward(c); }

}  // namespace

void add_layer_norm(Kernels& kernels) {
  kernels.push_back({"layer_norm", nullptr, "two_pass", layer_norm, workspace});
}

}  // namespace opbound::fast
