#include "tests/device/unit_products.hpp"

#include "ops/cuda.hpp"
#include "ops/matmul/unit.hpp"

namespace opbound::unit_products {
namespace {

using unit_inputs::columns;
using unit_inputs::most_terms;
using unit_inputs::rows;
using unit_inputs::Tile;

constexpr int threads = 128;  // a warp group: 4 warps of 16 rows
constexpr std::uint64_t most_blocks = 2048;

/// A lane's part of an instruction's matrices.
struct Fragment {
  std::uint32_t a[4];
  std::uint32_t b[2];
  float d[4];
};

#define OPBOUND_MMA(shape, types)                                           \
  asm volatile("mma.sync.aligned." shape ".row.col.f32." types              \
               ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
               : "+f"(f.d[0]), "+f"(f.d[1]), "+f"(f.d[2]), "+f"(f.d[3])     \
               : "r"(f.a[0]), "r"(f.a[1]), "r"(f.a[2]), "r"(f.a[3]), "r"(f.b[0]), "r"(f.b[1]))

template <Format a, Format b>
__device__ void mma(Fragment& f) {
  if constexpr (a.kind == Kind::bf16) OPBOUND_MMA("m16n8k16", "bf16.bf16");
  if constexpr (a.kind == Kind::fp16) OPBOUND_MMA("m16n8k16", "f16.f16");
  if constexpr (a.bits() == 32) OPBOUND_MMA("m16n8k8", "tf32.tf32");
  if constexpr (a.kind == Kind::e4m3 && b.kind == Kind::e4m3) OPBOUND_MMA("m16n8k32", "e4m3.e4m3");
  if constexpr (a.kind == Kind::e4m3 && b.kind == Kind::e5m2) OPBOUND_MMA("m16n8k32", "e4m3.e5m2");
  if constexpr (a.kind == Kind::e5m2 && b.kind == Kind::e4m3) OPBOUND_MMA("m16n8k32", "e5m2.e4m3");
  if constexpr (a.kind == Kind::e5m2 && b.kind == Kind::e5m2) OPBOUND_MMA("m16n8k32", "e5m2.e5m2");
}
#undef OPBOUND_MMA

#define OPBOUND_WGMMA(shape, types, end)                                     \
  asm volatile(                                                              \
      "wgmma.fence.sync.aligned;\n"                                          \
      "wgmma.mma_async.sync.aligned." shape ".f32." types                    \
      " {%0,%1,%2,%3}, {%4,%5,%6,%7}, %8, 1, 1, 1" end                       \
      ";\n"                                                                  \
      "wgmma.commit_group.sync.aligned;\n"                                   \
      "wgmma.wait_group.sync.aligned 0;\n"                                   \
      : "+f"(f.d[0]), "+f"(f.d[1]), "+f"(f.d[2]), "+f"(f.d[3])               \
      : "r"(f.a[0]), "r"(f.a[1]), "r"(f.a[2]), "r"(f.a[3]), "l"(description) \
      : "memory")

/// b as shared memory has it: two halves of k, each 8 columns of 16 bytes.
template <Format a, Format b>
__device__ void wgmma(Fragment& f, const void* shared_b) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  const auto address = static_cast<std::uint64_t>(__cvta_generic_to_shared(shared_b));
  constexpr std::uint64_t halves = 128 >> 4;  // bytes from one half to the other, in units of 16
  const std::uint64_t description = (address & 0x3ffff) >> 4 | halves << 16 | halves << 32;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if constexpr (a.kind == Kind::bf16) OPBOUND_WGMMA("m64n8k16", "bf16.bf16", ", 0");
  if constexpr (a.kind == Kind::fp16) OPBOUND_WGMMA("m64n8k16", "f16.f16", ", 0");
  if constexpr (a.bits() == 32) OPBOUND_WGMMA("m64n8k8", "tf32.tf32", "");
  if constexpr (a.kind == Kind::e4m3 && b.kind == Kind::e4m3)
    OPBOUND_WGMMA("m64n8k32", "e4m3.e4m3", "");
  if constexpr (a.kind == Kind::e4m3 && b.kind == Kind::e5m2)
    OPBOUND_WGMMA("m64n8k32", "e4m3.e5m2", "");
  if constexpr (a.kind == Kind::e5m2 && b.kind == Kind::e4m3)
    OPBOUND_WGMMA("m64n8k32", "e5m2.e4m3", "");
  if constexpr (a.kind == Kind::e5m2 && b.kind == Kind::e5m2)
    OPBOUND_WGMMA("m64n8k32", "e5m2.e5m2", "");
#endif
}
#undef OPBOUND_WGMMA

/// A tile as every thread of the block sees it.
struct Shared {
  alignas(128) unsigned char b_halves[2 * columns * 16];
  double a[rows][most_terms], b[most_terms][columns];
};

template <Format a, Format b, int terms>
__device__ void make(const Tile& tile, Shared& s) {
  for (int i = static_cast<int>(threadIdx.x); i < rows * terms; i += threads)
    s.a[i / terms][i % terms] = tile.factor_a(i / terms, i % terms);
  for (int i = static_cast<int>(threadIdx.x); i < columns * terms; i += threads) {
    const int t = i / columns, j = i % columns;
    const double x = tile.factor_b(t, j);
    s.b[t][j] = x;
    constexpr int bytes = b.bytes(), half = terms / 2;
    const std::uint64_t bits = encode(b, x);
    for (int k = 0; k < bytes; ++k)
      s.b_halves[t / half * 128 + j * 16 + t % half * bytes + k] =
          static_cast<unsigned char>(bits >> (8 * k));
  }
  __syncthreads();
}

/// `count` factors that lie side by side in a register.
template <Format f, class At>
__device__ std::uint32_t packed(int first, At at) {
  std::uint32_t word = 0;
  for (int k = 0; k < 4 / f.bytes(); ++k)
    word |= static_cast<std::uint32_t>(encode(f, at(first + k))) << (8 * f.bytes() * k);
  return word;
}

/// The lane's places: rows `row` and row + 8, columns `column` and column + 1.
struct Lane {
  int group = static_cast<int>(threadIdx.x % 32) / 4, in_group = static_cast<int>(threadIdx.x % 4);
  int row = static_cast<int>(threadIdx.x / 32) * 16 + group, column = 2 * in_group;

  __device__ int row_of(int k) const { return row + 8 * (k / 2); }
  __device__ int column_of(int k) const { return column + k % 2; }
};

template <Format a, Format b, int terms>
__device__ Fragment fragment_of(const Tile& tile, const Shared& s, const Lane& lane) {
  Fragment f{};
  constexpr int in_word = 4 / a.bytes(), half = terms / 2;
  for (int k = 0; k < 4; ++k)
    f.a[k] = packed<a>(k / 2 * half + lane.in_group * in_word,
                       [&](int t) { return s.a[lane.row + 8 * (k % 2)][t]; });
  for (int k = 0; k < 2; ++k)
    f.b[k] =
        packed<b>(k * half + lane.in_group * in_word, [&](int t) { return s.b[t][lane.group]; });
  for (int k = 0; k < 4; ++k) {
    double sum = 0;
    for (int t = 0; t < terms; ++t) sum += s.a[lane.row_of(k)][t] * s.b[t][lane.column_of(k)];
    f.d[k] = tile.accumulator(lane.row_of(k), lane.column_of(k), sum);
  }
  return f;
}

template <Operation o>
__device__ void run(Fragment& f, const Shared& s) {
  if constexpr (o.instruction == Instruction::mma)
    mma<o.a, o.b>(f);
  else
    wgmma<o.a, o.b>(f, s.b_halves);
}

__device__ bool has_same_bits(float x, float y) {
  return (isnan(x) && isnan(y)) || __float_as_uint(x) == __float_as_uint(y);
}

template <Operation o>
__device__ float emulated(const MatrixUnit& unit, const Shared& s, const Lane& lane, int k,
                          float c) {
  double sum = to_double(c);
  for (int first = 0; first < o.terms; first += detail::at_once(unit)) {
    detail::UnitBlock x;
    for (; x.count < detail::at_once(unit); ++x.count) {
      const int t = first + x.count;
      x.a[x.count] = detail::factor(o.a, s.a[lane.row_of(k)][t]);
      x.b[x.count] = detail::factor(o.b, s.b[t][lane.column_of(k)]);
    }
    sum =
        detail::unit_instruction(unit, aligned_format(unit, o.a), aligned_format(unit, o.b), x, sum)
            .value;
  }
  return static_cast<float>(sum);
}

template <std::size_t operation>
__global__ void __launch_bounds__(threads)
    compare_tiles(MatrixUnit unit, std::uint64_t tiles, unsigned long long* differing,
                  Difference* some) {
  constexpr Operation o = operations[operation];
  __shared__ Shared s;
  const Lane lane;
  for (std::uint64_t n = blockIdx.x; n < tiles; n += gridDim.x) {
    const Tile tile{n, o.a, o.b};
    __syncthreads();
    make<o.a, o.b, o.terms>(tile, s);
    Fragment f = fragment_of<o.a, o.b, o.terms>(tile, s, lane);
    const Fragment before = f;
    run<o>(f, s);
    for (int k = 0; k < 4; ++k) {
      const float expected = emulated<o>(unit, s, lane, k, before.d[k]);
      if (has_same_bits(f.d[k], expected)) continue;
      constexpr std::uint64_t kinds = unit_inputs::kinds * unit_inputs::kinds;
      if (atomicAdd(differing + n % kinds, 1ULL) == 0)
        some[n % kinds] = {n, lane.row_of(k), lane.column_of(k), f.d[k], expected};
    }
  }
}

/// Calls run.template operator()<k>() with the place of o in the list.
template <std::size_t k = 0, class F>
void with_operation(const Operation& o, F run) {
  constexpr Operation here = operations[k];
  if (o.instruction == here.instruction && o.a == here.a && o.b == here.b)
    run.template operator()<k>();
  else if constexpr (k + 1 < operations.size())
    with_operation<k + 1>(o, run);
}

}  // namespace

Compared compare(const Operation& o, const MatrixUnit& unit, std::uint64_t tiles) {
  Compared c;
  c.sums = tiles * rows * columns;
  const cuda::Memory differing = cuda::memory_for<unsigned long long>(std::ssize(c.differing));
  const cuda::Memory some = cuda::memory_for<Difference>(std::ssize(c.first));
  OPBOUND_CUDA_CHECK(cudaMemset(differing.data(), 0, sizeof c.differing));
  OPBOUND_CUDA_CHECK(cudaMemset(some.data(), 0, sizeof c.first));
  const auto blocks = static_cast<unsigned>(tiles < most_blocks ? tiles : most_blocks);
  with_operation(o, [&]<std::size_t here>() {
    compare_tiles<here><<<blocks, threads>>>(unit, tiles, differing.as<unsigned long long>(),
                                             some.as<Difference>());
  });
  OPBOUND_CUDA_CHECK(cudaGetLastError());
  differing.copy_to_host(c.differing.data());
  some.copy_to_host(c.first.data());
  return c;
}

}  // namespace opbound::unit_products
