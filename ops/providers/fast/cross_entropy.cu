// The loss of rows of logits, a block for each: their largest, the sum of exp, the loss; and the
// gradient, which needs the sum's logarithm only.
#include "ops/providers/fast/numbers.cuh"

namespace opbound::fast {
namespace {

constexpr int threads = 512;

struct Rows {
  std::int64_t rows, n, ignored;
  const std::int64_t* targets;
  bool is_mean;
};

/// take(x_j, j) for the block's row; packs where its rows begin at 16 bytes.
template <bool packs, class X, class F>
__device__ void each_of_row(const X* row, std::int64_t n, F take) {
  if constexpr (packs) {
    for (std::int64_t p = threadIdx.x; p < n / lane; p += threads) {
      const auto pack = reinterpret_cast<const Pack<X, lane>*>(row)[p];
      for (int k = 0; k < lane; ++k) take(wide(pack.at[k]), p * lane + k);
    }
  } else {
    for (std::int64_t j = threadIdx.x; j < n; j += threads) take(wide(row[j]), j);
  }
}

template <bool packs, class X>
__global__ void __launch_bounds__(threads)
    losses(const X* logits, Rows r, float* loss, float* lse) {
  __shared__ float shared[32];
  for (std::int64_t row = blockIdx.x; row < r.rows; row += gridDim.x) {
    const X* const x = logits + row * r.n;
    float top = -INFINITY;
    each_of_row<packs>(x, r.n, [&](float v, std::int64_t) { top = larger(top, v); });
    top = block_max(top, shared);
    float sum = 0;
    each_of_row<packs>(x, r.n, [&](float v, std::int64_t) { sum = sum + expf(v - top); });
    sum = block_sum(sum, shared);
    if (threadIdx.x != 0) continue;
    const std::int64_t target = r.targets[row];
    const float log_sum = isfinite(top) ? logf(sum) : NAN;
    lse[row] = top + log_sum;
    if (target == r.ignored)
      loss[row] = 0;
    else
      loss[row] = 0 <= target && target < r.n ? log_sum + (top - wide(x[target])) : NAN;
  }
}

/// How many targets are not ignored, in every thread of the block.
__device__ float counted(const Rows& r, float* shared) {
  float count = 0;  // whole numbers: exact up to 2^24 of a thread's and of all
  for (std::int64_t i = threadIdx.x; i < r.rows; i += blockDim.x)
    count = count + (r.targets[i] == r.ignored ? 0.0f : 1.0f);
  return block_sum(count, shared);
}

__global__ void reduced_loss(const float* loss, Rows r, Vector reduced) {
  __shared__ float shared[32];
  const float count = counted(r, shared);
  float sum = 0;
  for (std::int64_t i = threadIdx.x; i < r.rows; i += blockDim.x) sum = sum + loss[i];
  sum = block_sum(sum, shared);
  if (threadIdx.x != 0) return;
  reduced.put(0, !r.is_mean ? sum : count == 0 ? NAN : sum / count);
}

__global__ void upstream_of(Vector dreduced, Rows r, float* scale) {
  __shared__ float shared[32];
  const float count = counted(r, shared), g = dreduced.get(0);
  if (threadIdx.x == 0) *scale = r.is_mean && count > 0 ? g / count : g;
}

template <bool packs, class X>
__global__ void __launch_bounds__(threads)
    gradients(const X* logits, Rows r, const float* lse, const float* scale, X* dlogits) {
  const float g = *scale;
  for (std::int64_t row = blockIdx.x; row < r.rows; row += gridDim.x) {
    const X* const x = logits + row * r.n;
    X* const dx = dlogits + row * r.n;
    const std::int64_t target = r.targets[row];
    const bool is_ignored = target == r.ignored, is_valid = 0 <= target && target < r.n;
    const float row_lse = lse[row];
    const auto value = [&](float v, std::int64_t j) {
      if (is_ignored) return 0.0f;
      if (!is_valid) return NAN;
      const float probability = expf(v - row_lse);
      return g * (j == target ? probability - 1.0f : probability);
    };
    if constexpr (packs) {
      for (std::int64_t p = threadIdx.x; p < r.n / lane; p += threads) {
        const auto in = reinterpret_cast<const Pack<X, lane>*>(x)[p];
        Pack<X, lane> out;
        for (int k = 0; k < lane; ++k) out.at[k] = narrow<X>(value(wide(in.at[k]), p * lane + k));
        reinterpret_cast<Pack<X, lane>*>(dx)[p] = out;
      }
    } else {
      for (std::int64_t j = threadIdx.x; j < r.n; j += threads)
        dx[j] = narrow<X>(value(wide(x[j]), j));
    }
  }
}

// ---- host

Rows rows_of(const Call& c, const opbound_tensor& logits) {
  require(c.number("label_smoothing") == 0, "it smooths no labels");
  require(!c.flag("recompute"), "its gradient is of the saved lse");
  require(c.word("reduction") != "none", "its loss is reduced");
  const opbound_tensor& targets = c.tensor("targets");
  require(targets.element == OPBOUND_INT64 && is_contiguous(targets),
          "its targets are int64 without gaps");
  require(logits.size[0] > 0 && logits.size[1] > 0, "it takes no empty rows");
  require(logits.size[0] < (1 << 24), "it counts up to 2^24 rows");
  return {logits.size[0], logits.size[1], c.whole("ignore_index"),
          static_cast<const std::int64_t*>(targets.data), c.word("reduction") == "mean"};
}

float* floats(const Call& c, const char* name) {
  const opbound_tensor& t = dense(c, name);
  require(t.element == OPBOUND_FP32, std::string(name) + " in fp32");
  return static_cast<float*>(t.data);
}

void forward(const Call& c) {
  const opbound_tensor& logits = dense(c, "logits");
  const Rows r = rows_of(c, logits);
  float *const loss = floats(c, "loss"), *const lse = floats(c, "lse");
  const bool packs = is_packed(logits) && r.n % lane == 0;
  with_type(logits.element, [&](auto type) {
    const auto* const x = static_cast<const decltype(type)*>(logits.data);
    const unsigned blocks = blocks_for(r.rows, 1);
    packs ? losses<true><<<blocks, threads, 0, stream_of(c)>>>(x, r, loss, lse)
          : losses<false><<<blocks, threads, 0, stream_of(c)>>>(x, r, loss, lse);
  });
  reduced_loss<<<1, 1024, 0, stream_of(c)>>>(loss, r, vector_of(dense(c, "reduced")));
  check_launch();
}

void backward(const Call& c) {
  const opbound_tensor &logits = dense(c, "logits"), &dlogits = dense(c, "dlogits");
  require(dlogits.element == logits.element, "dlogits in another format than the logits");
  const Rows r = rows_of(c, logits);
  const float* const lse = floats(c, "lse");
  require(c.get().workspace_size >= sizeof(float), "too small a workspace");
  auto* const scale = static_cast<float*>(c.get().workspace);
  const bool packs = is_packed(logits) && is_packed(dlogits) && r.n % lane == 0;
  upstream_of<<<1, 1024, 0, stream_of(c)>>>(vector_of(dense(c, "dreduced")), r, scale);
  with_type(logits.element, [&](auto type) {
    using X = decltype(type);
    const auto* const x = static_cast<const X*>(logits.data);
    auto* const dx = static_cast<X*>(dlogits.data);
    const unsigned blocks = blocks_for(r.rows, 1);
    packs ? gradients<true><<<blocks, threads, 0, stream_of(c)>>>(x, r, lse, scale, dx)
          : gradients<false><<<blocks, threads, 0, stream_of(c)>>>(x, r, lse, scale, dx);
  });
  check_launch();
}

void cross_entropy(const Call& c) { c.is_backward() ? backward(c) : forward(c); }

std::size_t workspace(const Call& c) { return c.is_backward() ? sizeof(float) : 0; }

}  // namespace

void add_cross_entropy(Kernels& kernels) {
  kernels.push_back({"cross_entropy", nullptr, "log_of_sum", cross_entropy, workspace});
}

}  // namespace opbound::fast
