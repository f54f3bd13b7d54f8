// Element for element: cast, residual, gelu.
#include "ops/providers/fast/numbers.cuh"

namespace opbound::fast {
namespace {

constexpr int threads = 256;

/// y[i] = f(x[i], z[i]) of contiguous arrays; `packs` of `lane` numbers, then what is left.
template <class Y, class X, class Z, class F>
__global__ void each(Y* y, const X* x, const Z* z, std::int64_t packs, std::int64_t n, F f) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  const std::int64_t own = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (std::int64_t i = own; i < packs; i += step) {
    const auto a = reinterpret_cast<const Pack<X, lane>*>(x)[i];
    const auto b = reinterpret_cast<const Pack<Z, lane>*>(z)[i];
    Pack<Y, lane> out;
    for (int k = 0; k < lane; ++k) out.at[k] = narrow<Y>(f(wide(a.at[k]), wide(b.at[k])));
    reinterpret_cast<Pack<Y, lane>*>(y)[i] = out;
  }
  for (std::int64_t i = packs * lane + own; i < n; i += step)
    y[i] = narrow<Y>(f(wide(x[i]), wide(z[i])));
}

/// y = f(x, z); without a second operand z is x again.
template <class F>
void run_each(const Call& c, const opbound_tensor& y, const opbound_tensor& x,
              const opbound_tensor& z, F f) {
  const std::int64_t n = count_of(y);
  if (n == 0) return;
  const bool packs = is_packed(y) && is_packed(x) && is_packed(z);
  with_type(y.element, [&](auto out) {
    with_type(x.element, [&](auto first) {
      const auto run = [&](auto second) {
        using Y = decltype(out);
        using X = decltype(first);
        using Z = decltype(second);
        each<<<blocks_for((n + lane - 1) / lane, threads), threads, 0, stream_of(c)>>>(
            static_cast<Y*>(y.data), static_cast<const X*>(x.data), static_cast<const Z*>(z.data),
            packs ? n / lane : 0, n, f);
      };
      if (z.element == x.element)
        run(first);
      else
        with_type(z.element, run);
    });
  });
  check_launch();
}

// ---- cast

/// The last four axes of a tensor; the last one in packs of `width` numbers.
struct Places {
  std::int64_t size[4], x_stride[4], y_stride[4];
};

template <int width, class Y, class X>
__global__ void copy_strided(Y* y, const X* x, const __grid_constant__ Places p,
                             std::int64_t count) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    std::int64_t left = i, from = 0, to = 0;
    for (int a = 3; a >= 0; --a) {
      const std::int64_t k = left % p.size[a];
      left /= p.size[a];
      from += k * p.x_stride[a];
      to += k * p.y_stride[a];
    }
    const auto in = *reinterpret_cast<const Pack<X, width>*>(x + from);
    Pack<Y, width> out;
    for (int k = 0; k < width; ++k) out.at[k] = narrow<Y>(wide(in.at[k]));
    *reinterpret_cast<Pack<Y, width>*>(y + to) = out;
  }
}

bool are_packs(const opbound_tensor& t) {
  if (!is_packed(t) || t.stride[t.rank - 1] != 1) return false;
  for (int a = 0; a + 1 < t.rank; ++a)
    if (t.stride[a] % lane != 0) return false;
  return true;
}

void copy(const Call& c, const opbound_tensor& x, const opbound_tensor& y) {
  require(x.rank == y.rank && 1 <= x.rank && x.rank <= 4, "its tensors have at most four axes");
  const std::int64_t n = count_of(y);
  if (n == 0) return;
  const bool packs = x.size[x.rank - 1] % lane == 0 && are_packs(x) && are_packs(y);
  Places p{{1, 1, 1, 1}, {0, 0, 0, 0}, {0, 0, 0, 0}};
  for (int a = 0; a < x.rank; ++a) {
    const int at = 4 - x.rank + a;
    p.size[at] = x.size[a];
    p.x_stride[at] = x.stride[a];
    p.y_stride[at] = y.stride[a];
  }
  if (packs) {
    p.size[3] /= lane;
    p.x_stride[3] = p.y_stride[3] = lane;
  }
  const std::int64_t count = packs ? n / lane : n;
  with_type(y.element, [&](auto out) {
    with_type(x.element, [&](auto in) {
      auto* const to = static_cast<decltype(out)*>(y.data);
      const auto* const from = static_cast<const decltype(in)*>(x.data);
      const unsigned blocks = blocks_for(count, threads);
      if (packs)
        copy_strided<lane><<<blocks, threads, 0, stream_of(c)>>>(to, from, p, count);
      else
        copy_strided<1><<<blocks, threads, 0, stream_of(c)>>>(to, from, p, count);
    });
  });
  check_launch();
}

struct Same {
  __device__ float operator()(float x, float) const { return x; }
};

void cast(const Call& c) {
  require(c.word("through") == "fp64", "it casts in one step");
  require(!c.flag("saturate"), "its casts give infinities");
  const opbound_tensor &x = c.tensor("x"), &y = c.tensor("y");
  require(is_stored(x.element) && is_stored(y.element), "it has fp32, bf16 and fp16");
  if (is_contiguous(x) && is_contiguous(y))
    run_each(c, y, x, x, Same{});
  else
    copy(c, x, y);
}

// ---- residual

/// x + (scale * r)
struct Added {
  float scale;
  __device__ float operator()(float x, float r) const { return x + scale * r; }
};

void residual(const Call& c) {
  run_each(c, dense(c, "y"), dense(c, "x"), dense(c, "r"),
           Added{static_cast<float>(c.number("scale"))});
}

// ---- gelu, as ops/gelu.hpp has its variants

constexpr float sqrt_half = 0.707106781186547524401f;
constexpr float one_over_sqrt_two_pi = 0.398942280401432677940f;
constexpr float sqrt_two_over_pi = 0.797884560802865355880f;
constexpr float cubic = 0.044715f;

__device__ float clamped(float x) { return fminf(fmaxf(x, -40.0f), 40.0f); }
__device__ float tanh_argument(float x) {
  return sqrt_two_over_pi * (x * (1.0f + cubic * (x * x)));
}

struct GeluErfc {
  __device__ float operator()(float v, float) const { return (0.5f * v) * erfcf(-(v * sqrt_half)); }
};
struct GeluErfcBackward {
  __device__ float operator()(float v, float dy) const {
    const float c = clamped(v);
    const float cdf = 0.5f * erfcf(-(v * sqrt_half));
    return dy * (cdf + v * (one_over_sqrt_two_pi * expf(-(0.5f * (c * c)))));
  }
};
struct GeluSigmoid {
  __device__ float operator()(float v, float) const {
    const float t = tanh_argument(clamped(v));
    if (!(v < 0)) return v / (1.0f + expf(-(2.0f * t)));
    const float w = expf(2.0f * t);
    return (v * w) / (1.0f + w);
  }
};
struct GeluSigmoidBackward {
  __device__ float operator()(float v, float dy) const {
    const float c = clamped(v), t = tanh_argument(c);
    const float inner = sqrt_two_over_pi * (1.0f + (3.0f * cubic) * (c * c));
    const float w = expf(-(2.0f * fabsf(t)));
    const float large = 1.0f / (1.0f + w), small = w / (1.0f + w);
    const float s = v < 0 ? small : large;
    return dy * (s + 2.0f * (v * ((large * small) * inner)));
  }
};

void gelu(const Call& c) {
  const bool is_erfc = c.variant() == "erfc";
  const opbound_tensor& x = dense(c, "x");
  if (!c.is_backward()) {
    const opbound_tensor& y = dense(c, "y");
    is_erfc ? run_each(c, y, x, x, GeluErfc{}) : run_each(c, y, x, x, GeluSigmoid{});
    return;
  }
  const opbound_tensor &dx = dense(c, "dx"), &dy = dense(c, "dy");
  is_erfc ? run_each(c, dx, x, dy, GeluErfcBackward{})
          : run_each(c, dx, x, dy, GeluSigmoidBackward{});
}

}  // namespace

void add_elementwise(Kernels& kernels) {
  kernels.push_back({"cast", "forward", "nearest", cast});
  kernels.push_back({"residual", "forward", "product_and_sum", residual});
  kernels.push_back({"gelu", nullptr, "erfc", gelu});
  kernels.push_back({"gelu", nullptr, "sigmoid", gelu});
}

}  // namespace opbound::fast
