#include "distributed/modules/tree_sum.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace opbound {
namespace {

constexpr int threads = 512;

/// How an element is held, and what it is added in: sums of two narrow numbers in fp32, rounded
/// again, are the narrow format's own (Figueroa 1995).
template <Element E>
struct Stored;
template <>
struct Stored<Element::fp64> {
  using Bits = double;
  using Wide = double;
  __device__ static Wide widened(Bits b) { return b; }
  __device__ static Bits narrowed(Wide w) { return w; }
};
template <>
struct Stored<Element::fp32> {
  using Bits = float;
  using Wide = float;
  __device__ static Wide widened(Bits b) { return b; }
  __device__ static Bits narrowed(Wide w) { return w; }
};
template <>
struct Stored<Element::bf16> {
  using Bits = __nv_bfloat16;
  using Wide = float;
  __device__ static Wide widened(Bits b) { return __bfloat162float(b); }
  __device__ static Bits narrowed(Wide w) { return __float2bfloat16_rn(w); }
};
template <>
struct Stored<Element::fp16> {
  using Bits = __half;
  using Wide = float;
  __device__ static Wide widened(Bits b) { return __half2float(b); }
  __device__ static Bits narrowed(Wide w) { return __float2half_rn(w); }
};
/// 8 bits, which are no numbers to a device's instructions.
template <Format F>
struct StoredByte {
  using Bits = std::uint8_t;
  using Wide = float;
  __device__ static Wide widened(Bits b) { return static_cast<float>(decode(F, b)); }
  __device__ static Bits narrowed(Wide w) { return static_cast<Bits>(encode(F, round_to(F, w))); }
};
template <>
struct Stored<Element::e4m3> : StoredByte<e4m3> {};
template <>
struct Stored<Element::e5m2> : StoredByte<e5m2> {};

/// What the sums of a call are rounded to before they are stored; fp32 and fp64: not again.
template <class Wide>
__device__ Wide in_compute(Element compute, Wide w) {
  if (compute == Element::bf16) return __bfloat162float(__float2bfloat16_rn(w));
  if (compute == Element::fp16) return __half2float(__float2half_rn(w));
  return w;
}

template <Element E>
struct Adder {
  using S = Stored<E>;
  using Wide = typename S::Wide;
  Element compute;
  bool is_rounded;  ///< to `compute`, which is another format than the wire's and narrow
  Wide divisor;

  __device__ explicit Adder(const TreeSum& sum)
      : compute(sum.compute),
        is_rounded(sum.compute != E && sum.compute != Element::fp32 &&
                   sum.compute != Element::fp64),
        divisor(static_cast<Wide>(sum.divisor)) {}

  __device__ Wide added(Wide a, Wide b) const {
    const Wide sum = a + b;
    return is_rounded ? in_compute(compute, sum) : sum;
  }
  __device__ Wide kept(Wide w) const { return S::widened(S::narrowed(w)); }
  /// Of the root, as it is held before it is stored.
  __device__ typename S::Bits finished(Wide total) const {
    if (divisor == 0) return S::narrowed(total);
    return S::narrowed(in_compute(compute, in_compute(compute, total) / divisor));
  }
};

/// The tree over neighbours, pairs of them, and so on; without its root's rounding.
template <int count, Element E, class Term>
__device__ typename Stored<E>::Wide halved(const Adder<E>& adder, int first, Term term) {
  if constexpr (count == 1) {
    return term(first);
  } else {
    const auto left = halved<count / 2>(adder, first, term);
    const auto right = halved<count / 2>(adder, first + count / 2, term);
    return count == 2 ? adder.added(left, right) : adder.added(adder.kept(left), adder.kept(right));
  }
}

/// The same for any power of two, as carries do in a binary counter.
template <Element E, class Term>
__device__ typename Stored<E>::Wide counted(const Adder<E>& adder, int count, Term term) {
  typename Stored<E>::Wide partial[24];
  int depth = 0;
  for (int k = 0; k < count; ++k) {
    auto own = term(k);
    for (int carry = k; (carry & 1) != 0; carry >>= 1) {
      own = adder.added(partial[--depth], own);
      if (k + 1 < count || depth > 0) own = adder.kept(own);
    }
    partial[depth++] = own;
  }
  return partial[0];
}

// ---- ranks that wait for one another

__device__ std::uint64_t now_ns() {
  std::uint64_t t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}
__device__ void tell(std::uint32_t* word, std::uint32_t value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}
__device__ std::uint32_t told(const std::uint32_t* word) {
  std::uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}

/// Goes on when this block of every rank has come so far; steps only grow, around their end too.
__device__ void meet(const Meeting& m, std::uint32_t step) {
  __syncthreads();
  const int other = static_cast<int>(threadIdx.x);
  if (other < m.ranks) {
    std::uint32_t* own = m.of_ranks[m.rank];
    const int row = static_cast<int>(blockIdx.x) * most_near_ranks;
    tell(m.of_ranks[other] + row + m.rank, step);
    const std::uint64_t start = now_ns();
    while (static_cast<std::int32_t>(told(own + row + other) - step) < 0) {
      if (told(own + Meeting::failed) != 0) break;
      if (now_ns() - start > m.patience_ns) tell(own + Meeting::failed, 1);
    }
  }
  __syncthreads();
}

// ---- the kernel

template <class Bits>
struct alignas(16) Pack {
  static constexpr int lanes = 16 / static_cast<int>(sizeof(Bits));
  Bits lane[lanes];
};

template <class Bits>
__device__ Pack<Bits> loaded(const void* from, std::int64_t pack) {
  const int4 raw = __ldcg(static_cast<const int4*>(from) + pack);
  Pack<Bits> p;
  memcpy(&p, &raw, sizeof p);
  return p;
}

__device__ const void* term_at(const TreeSum& sum, int r) {
  if (sum.staged == nullptr) return sum.terms[r];
  return r == sum.own_term ? sum.own : static_cast<const char*>(sum.staged) + r * sum.stride;
}

/// How many whole packs there are, where all addresses allow it.
template <class Bits>
__device__ std::int64_t packs_of(const TreeSum& sum) {
  std::uint64_t addresses = 0;
  for (int r = 0; r < sum.term_count; ++r)
    addresses |= reinterpret_cast<std::uint64_t>(term_at(sum, r));
  for (int t = 0; t < sum.target_count; ++t)
    addresses |= reinterpret_cast<std::uint64_t>(sum.targets[t]);
  return addresses % 16 == 0 ? sum.count / Pack<Bits>::lanes : 0;
}

/// Several packs at once: others' memory is far, and so much has to be under way.
template <Element E, int terms>
__device__ void add_packs(const TreeSum& sum, const Adder<E>& adder, std::int64_t packs,
                          std::int64_t own_place, std::int64_t stride) {
  using S = Stored<E>;
  using Bits = typename S::Bits;
  constexpr int at_once = terms > 4 ? 1 : terms > 2 ? 2 : 4;
  const void* from[terms];
#pragma unroll
  for (int r = 0; r < terms; ++r) from[r] = term_at(sum, r);
  for (std::int64_t first = own_place; first < packs; first += stride * at_once) {
    Pack<Bits> given[at_once][terms];
#pragma unroll
    for (int k = 0; k < at_once; ++k)
#pragma unroll
      for (int r = 0; r < terms; ++r)
        if (first + k * stride < packs) given[k][r] = loaded<Bits>(from[r], first + k * stride);
#pragma unroll
    for (int k = 0; k < at_once; ++k) {
      if (first + k * stride >= packs) break;
      Pack<Bits> total;
#pragma unroll
      for (int l = 0; l < Pack<Bits>::lanes; ++l)
        total.lane[l] = adder.finished(
            halved<terms>(adder, 0, [&](int r) { return S::widened(given[k][r].lane[l]); }));
      for (int t = 0; t < sum.target_count; ++t)
        static_cast<Pack<Bits>*>(sum.targets[t])[first + k * stride] = total;
    }
  }
}

/// terms: how many there are, or 0 where only the call says so.
template <Element E, int terms>
__global__ void __launch_bounds__(threads) add_in_tree(const TreeSum sum) {
  using S = Stored<E>;
  using Bits = typename S::Bits;
  const Meeting& m = sum.meeting;
  const std::uint32_t epoch = m.ranks > 0 ? m.of_ranks[m.rank][Meeting::epochs + blockIdx.x] : 0;
  if (m.ranks > 0) meet(m, 2 * epoch + 1);

  const Adder<E> adder(sum);
  const std::int64_t stride = std::int64_t{gridDim.x} * threads;
  const std::int64_t own_place = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  std::int64_t alone = 0;  // the first element that is in no pack
  if constexpr (terms != 0) {
    const std::int64_t packs = packs_of<Bits>(sum);
    add_packs<E, terms>(sum, adder, packs, own_place, stride);
    alone = packs * Pack<Bits>::lanes;
  }
  for (std::int64_t i = alone + own_place; i < sum.count; i += stride) {
    const auto term = [&](int r) {
      return S::widened(static_cast<const Bits*>(term_at(sum, r))[i]);
    };
    Bits total;
    if constexpr (terms != 0)
      total = adder.finished(halved<terms>(adder, 0, term));
    else
      total = adder.finished(counted(adder, sum.term_count, term));
    for (int t = 0; t < sum.target_count; ++t) static_cast<Bits*>(sum.targets[t])[i] = total;
  }

  if (m.ranks == 0) return;
  meet(m, 2 * epoch + 2);
  if (threadIdx.x == 0) m.of_ranks[m.rank][Meeting::epochs + blockIdx.x] = epoch + 1;
}

template <Element E>
void start(const TreeSum& sum, int blocks, cudaStream_t stream) {
  switch (sum.term_count) {
    case 1:
      return add_in_tree<E, 1><<<blocks, threads, 0, stream>>>(sum);
    case 2:
      return add_in_tree<E, 2><<<blocks, threads, 0, stream>>>(sum);
    case 4:
      return add_in_tree<E, 4><<<blocks, threads, 0, stream>>>(sum);
    case 8:
      return add_in_tree<E, 8><<<blocks, threads, 0, stream>>>(sum);
    default:
      return add_in_tree<E, 0><<<blocks, threads, 0, stream>>>(sum);
  }
}

}  // namespace

bool has_tree_sum(Element wire, Element compute) {
  if (wire == Element::fp64 || compute == Element::fp64) return wire == compute;
  return wire != Element::tf32 && is_float(wire) && compute != Element::tf32 &&
         (compute == Element::fp32 || compute == wire || wire >= Element::e4m3);
}

cudaError_t start_tree_sum(const TreeSum& sum, cudaStream_t stream) {
  int blocks = sum.blocks;
  if (sum.meeting.ranks == 0) {
    if (sum.count == 0) return cudaSuccess;
    constexpr std::int64_t most = 1024, elements = threads * 8;
    const std::int64_t wanted = (sum.count + elements - 1) / elements;
    blocks = static_cast<int>(wanted < most ? wanted : most);
  }
  switch (sum.wire) {
    case Element::fp64:
      start<Element::fp64>(sum, blocks, stream);
      break;
    case Element::bf16:
      start<Element::bf16>(sum, blocks, stream);
      break;
    case Element::fp16:
      start<Element::fp16>(sum, blocks, stream);
      break;
    case Element::e4m3:
      start<Element::e4m3>(sum, blocks, stream);
      break;
    case Element::e5m2:
      start<Element::e5m2>(sum, blocks, stream);
      break;
    default:
      start<Element::fp32>(sum, blocks, stream);
  }
  return cudaGetLastError();
}

}  // namespace opbound
