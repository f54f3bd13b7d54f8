// What a step's gradients go through: their norm, clipping, AdamW.
#include <algorithm>
#include <cmath>

#include "ops/providers/fast/numbers.cuh"

namespace opbound::fast {
namespace {

constexpr int threads = 256;

// ---- global_norm, scaled as ops/global_norm.hpp has it (Blue 1978): 2^e sqrt(sum (g / 2^e)^2),
// 2^e <= max |g| < 2^(e + 1)

constexpr unsigned most_parts = 1056;  // eight blocks on each of an H200's multiprocessors

/// 2^-e as two factors, neither of which over- or underflows; 1 where max |g| is 0 or not finite.
struct Scale {
  float first, second;
};
__device__ Scale scale_for(float top) {
  if (!(top > 0) || isinf(top)) return {1, 1};
  const int e = ilogbf(top), half = e / 2;
  return {scalbnf(1.0f, -half), scalbnf(1.0f, -(e - half))};
}

template <class X, class F>
__device__ void each_of(const X* g, std::int64_t packs, std::int64_t n, F take) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  const std::int64_t own = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (std::int64_t i = own; i < packs; i += step) {
    const auto pack = reinterpret_cast<const Pack<X, lane>*>(g)[i];
    for (int k = 0; k < lane; ++k) take(wide(pack.at[k]));
  }
  for (std::int64_t i = packs * lane + own; i < n; i += step) take(wide(g[i]));
}

template <class X>
__global__ void largest_of(const X* g, std::int64_t packs, std::int64_t n, float* parts) {
  __shared__ float shared[32];
  float top = 0;
  each_of(g, packs, n, [&](float x) { top = larger(top, fabsf(x)); });
  top = block_max(top, shared);
  if (threadIdx.x == 0) parts[blockIdx.x] = top;
}

/// The largest of the parts, in every block.
__device__ float largest_part(const float* parts, float* shared) {
  float top = 0;
  for (unsigned i = threadIdx.x; i < gridDim.x; i += blockDim.x) top = larger(top, parts[i]);
  return block_max(top, shared);
}

template <class X>
__global__ void squares_of(const X* g, std::int64_t packs, std::int64_t n, const float* largest,
                           float* parts) {
  __shared__ float shared[32];
  const Scale scale = scale_for(largest_part(largest, shared));
  float sum = 0;
  each_of(g, packs, n, [&](float x) {
    const float s = x * scale.first * scale.second;
    sum = sum + s * s;
  });
  sum = block_sum(sum, shared);
  if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

__global__ void root_of(const float* largest, const float* parts, unsigned count, Vector norm) {
  __shared__ float shared[32];
  float top = 0, sum = 0;
  for (unsigned i = threadIdx.x; i < count; i += blockDim.x) {
    top = larger(top, largest[i]);
    sum = sum + parts[i];
  }
  const Scale scale = scale_for(block_max(top, shared));
  sum = block_sum(sum, shared);
  if (threadIdx.x == 0) norm.put(0, sqrtf(sum) / scale.first / scale.second);
}

void global_norm(const Call& c) {
  const opbound_tensor &g = dense(c, "g"), &norm = dense(c, "norm");
  const std::int64_t n = count_of(g);
  require(c.get().workspace_size >= 2 * most_parts * sizeof(float), "too small a workspace");
  auto* const largest = static_cast<float*>(c.get().workspace);
  float* const parts = largest + most_parts;
  const unsigned blocks = std::min(blocks_for((n + lane - 1) / lane, threads), most_parts);
  with_type(g.element, [&](auto type) {
    const auto* const data = static_cast<const decltype(type)*>(g.data);
    const std::int64_t packs = is_packed(g) ? n / lane : 0;
    largest_of<<<blocks, threads, 0, stream_of(c)>>>(data, packs, n, largest);
    squares_of<<<blocks, threads, 0, stream_of(c)>>>(data, packs, n, largest, parts);
  });
  root_of<<<1, 1024, 0, stream_of(c)>>>(largest, parts, blocks, vector_of(norm));
  check_launch();
}

std::size_t norm_workspace(const Call&) { return 2 * most_parts * sizeof(float); }

// ---- clip, division: g min(1, max_norm / (norm + eps))

template <class Y, class X>
__global__ void clipped(Y* y, const X* g, std::int64_t packs, std::int64_t n, Vector norm,
                        Vector coefficient, float most, float eps) {
  const float share = most / (norm.get(0) + eps);
  const float factor = share > 1 ? 1 : share;  // NaN stays
  if (blockIdx.x == 0 && threadIdx.x == 0) coefficient.put(0, factor);
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  const std::int64_t own = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (std::int64_t i = own; i < packs; i += step) {
    const auto in = reinterpret_cast<const Pack<X, lane>*>(g)[i];
    Pack<Y, lane> out;
    for (int k = 0; k < lane; ++k) out.at[k] = narrow<Y>(wide(in.at[k]) * factor);
    reinterpret_cast<Pack<Y, lane>*>(y)[i] = out;
  }
  for (std::int64_t i = packs * lane + own; i < n; i += step) y[i] = narrow<Y>(wide(g[i]) * factor);
}

void clip(const Call& c) {
  const opbound_tensor &g = dense(c, "g"), &y = dense(c, "clipped");
  const std::int64_t n = count_of(g);
  with_type(y.element, [&](auto out) {
    with_type(g.element, [&](auto in) {
      const std::int64_t packs = is_packed(g) && is_packed(y) ? n / lane : 0;
      clipped<<<blocks_for((n + lane - 1) / lane, threads), threads, 0, stream_of(c)>>>(
          static_cast<decltype(out)*>(y.data), static_cast<const decltype(in)*>(g.data), packs, n,
          vector_of(dense(c, "norm")), vector_of(dense(c, "coefficient")),
          static_cast<float>(c.number("max_norm")), static_cast<float>(c.number("eps")));
    });
  });
  check_launch();
}

// ---- adamw, scaled_step: what hangs on the hyper-parameters alone is derived in double

struct Constants {
  float beta1, rest1, beta2, rest2, eps, kept, step_size, root_of_correction2;

  explicit Constants(const Call& c) {
    const double lr = c.number("lr"), b1 = c.number("beta1"), b2 = c.number("beta2");
    const auto step = static_cast<double>(c.whole("step"));
    // 1 - beta^t without the digits that the difference would lose
    const double correction1 = -std::expm1(step * std::log(b1));
    const double correction2 = -std::expm1(step * std::log(b2));
    beta1 = static_cast<float>(b1);
    beta2 = static_cast<float>(b2);
    rest1 = static_cast<float>(1 - b1);
    rest2 = static_cast<float>(1 - b2);
    eps = static_cast<float>(c.number("eps"));
    kept = static_cast<float>(1 - lr * c.number("weight_decay"));
    step_size = static_cast<float>(lr / correction1);
    root_of_correction2 = static_cast<float>(std::sqrt(correction2));
  }
};

/// w, m and v as they are and as they become, which may be the same memory.
struct State {
  const float *w, *m, *v;
  float *next_w, *next_m, *next_v;
};

template <class X>
__global__ void stepped(const __grid_constant__ State s, const X* g, std::int64_t n, Constants c,
                        const unsigned char* found_inf) {
  const bool counts = found_inf == nullptr || *found_inf == 0;
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) {
    float w = s.w[i], m = s.m[i], v = s.v[i];
    if (counts) {
      const float x = wide(g[i]);
      m = c.beta1 * m + c.rest1 * x;
      v = c.beta2 * v + (c.rest2 * x) * x;
      const float size = sqrtf(v) / c.root_of_correction2 + c.eps;
      w = w * c.kept - c.step_size * (m / size);
    }
    s.next_w[i] = w;
    s.next_m[i] = m;
    s.next_v[i] = v;
  }
}

void adamw(const Call& c) {
  require(!c.flag("low_copy"), "it writes no second copy");
  require(c.word("hyper_format") == "fp64", "its hyper-parameters are held in double");
  const opbound_tensor& g = dense(c, "g");
  require(g.size[0] == 1, "it takes one step");
  const auto floats = [&](const char* name) {
    const opbound_tensor& t = dense(c, name);
    require(t.element == OPBOUND_FP32, "its state is in fp32");
    return static_cast<float*>(t.data);
  };
  const State state{floats("w"),      floats("m"),      floats("v"),
                    floats("next_w"), floats("next_m"), floats("next_v")};
  const opbound_tensor* found = c.find("found_inf");
  const std::int64_t n = count_of(g);
  const auto* const mask = found == nullptr || count_of(*found) == 0
                               ? nullptr
                               : static_cast<const unsigned char*>(found->data);
  with_type(g.element, [&](auto type) {
    stepped<<<blocks_for(n, threads), threads, 0, stream_of(c)>>>(
        state, static_cast<const decltype(type)*>(g.data), n, Constants(c), mask);
  });
  check_launch();
}

}  // namespace

void add_updates(Kernels& kernels) {
  kernels.push_back({"global_norm", "forward", "scaled", global_norm, norm_workspace});
  kernels.push_back({"clip", "forward", "division", clip});
  kernels.push_back({"adamw", "forward", "scaled_step", adamw});
}

}  // namespace opbound::fast
