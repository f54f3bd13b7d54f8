// Kernels of rows that have to keep up with memory: a row stays in registers.
//
// A thread is V neighbouring lanes of the declared team (ops/team.hpp) at once, so that one load
// moves V numbers. Each lane still combines its own elements in turn, and lanes meet in the
// declared order: the bits are those of any other team (tests/test_device.cpp).
#pragma once

#include <cstdint>
#include <type_traits>

#include "ops/instantiate/typed_io.hpp"
#include "ops/team.hpp"

namespace opbound::detail {

/// A TypedIo that moves V neighbouring numbers at once. Where the row's length is a constant the
/// compiler finds that V loads of one word are one.
template <class Pass, Element stored, int V>
class RowIo : public TypedIo<Pass, stored> {
 public:
  using Base = TypedIo<Pass, stored>;
  using Number = std::conditional_t<stored == Element::fp32, std::uint32_t, std::uint16_t>;
  using Word = std::conditional_t<
      V * sizeof(Number) == 2, std::uint16_t,
      std::conditional_t<V * sizeof(Number) == 4, std::uint32_t, unsigned long long>>;
  static_assert(sizeof(Word) == V * sizeof(Number));

  __device__ explicit RowIo(const Bindings& b) : Base{b} {}

  /// Is all that may be moved in words made of whole ones?
  static bool suits(const Bindings& b) {
    if (!Base::suits(b)) return false;
    for (int t = 0; t < b.count; ++t) {
      const bool is_whole = reinterpret_cast<std::uintptr_t>(b.view[t].data) % sizeof(Word) == 0 &&
                            b.view[t].count() % V == 0;
      if (!Base::is_compute(t) && !is_whole) return false;
    }
    return true;
  }

  __device__ float get(int t, std::int64_t i) const {
    if (Base::is_compute(t)) return Base::get(t, i);
    const auto at = static_cast<std::uint64_t>(i);
    const Word word = __ldg(this->template pointer<const Word>(t) + at / V);
    return number_of(static_cast<Number>(word >> at % V * (8 * sizeof(Number))));
  }
  __device__ double exact(int t, std::int64_t i) const { return get(t, i); }
  __device__ bool is_finite(int t, std::int64_t i) const { return detail::is_finite(get(t, i)); }

  /// Between these two a thread puts the V numbers of a word in turn, and nothing else.
  __device__ void begin_words() const { puts_words_ = true; }
  __device__ void end_words() const { puts_words_ = false; }

  __device__ void put(int t, std::int64_t i, float value) const {
    if (Base::is_compute(t) || !puts_words_) return Base::put(t, i, value);
    const auto at = static_cast<std::uint64_t>(i);
    put_[at % V] = value;
    if (at % V == V - 1) this->template pointer<Word>(t)[at / V] = word_of(put_);
  }

 private:
  __device__ static float number_of(Number bits) {
    if constexpr (stored == Element::fp32)
      return __uint_as_float(bits);
    else
      return of_half_bits<stored>(bits);
  }

  /// Conversion to 16 bits gives the NaN of all ones; that of TypedIo has fewer.
  __device__ static Word word_of(const float (&values)[V]) {
    if constexpr (V == 2 && stored == Element::bf16) {
      const __nv_bfloat162 pair = __floats2bfloat162_rn(values[0], values[1]);
      return word_of_pair(pair) & ~(__hneu2_mask(pair, pair) & 0x003f003f);
    } else if constexpr (V == 2 && stored == Element::fp16) {
      const __half2 pair = __floats2half2_rn(values[0], values[1]);
      return word_of_pair(pair) & ~(__hneu2_mask(pair, pair) & 0x01ff01ff);
    } else {
      Word word = 0;
      for (int e = 0; e < V; ++e) word |= Word{bits_of(values[e])} << e * (8 * int{sizeof(Number)});
      return word;
    }
  }
  template <class Pair>
  __device__ static Word word_of_pair(Pair pair) {
    static_assert(sizeof(Pair) == sizeof(Word));
    Word word;
    memcpy(&word, &pair, sizeof word);
    return word;
  }
  __device__ static Number bits_of(float value) {
    if constexpr (stored == Element::fp32)
      return value == value ? __float_as_uint(value) : 0x7fc00000U;
    else
      return half_bits<stored>(value);
  }

  mutable float put_[V];
  mutable bool puts_words_ = false;
};

/// How many lanes a thread is: two, unless the part says that one is faster for it.
template <class Part>
inline constexpr int neighbours = [] {
  if constexpr (requires { Part::neighbours; }) return Part::neighbours;
  return 2;
}();

/// team_width / V threads for one row of team_width * `chunks` numbers, which is what a kernel's
/// reductions and stores are over. Reductions are of numbers.
template <class Io, int V, int chunks>
class RowTeam : public LaneSums {
 public:
  static constexpr int threads = team_width / V;
  static constexpr std::int64_t length = std::int64_t{team_width} * chunks;

  /// `shared`: memory for team_width numbers.
  __device__ RowTeam(const Io& io, float* shared) : io_(io), shared_(shared) {}

  template <class F>
  __device__ auto sum(std::int64_t n, F term) const {
    return reduce<Sum>(n, term);
  }
  template <class F>
  __device__ auto max(std::int64_t n, F term) const {
    return reduce<Max>(n, term);
  }
  template <class F>
  __device__ bool any(std::int64_t n, F predicate) const {
    return reduce<Any>(n, predicate);
  }
  template <class F>
  __device__ void map(std::int64_t n, F action) const {
    for (std::int64_t first = place(0, 0); first < n; first += team_width)
      for (int e = 0; e < V && first + e < n; ++e) action(first + e);
  }
  __device__ void barrier() const { __syncthreads(); }

  struct Remembered {
    const float* values;
    __device__ float operator()(std::int64_t i) const {
      const auto at = static_cast<std::uint64_t>(i);
      return values[at / team_width * V + at % V];
    }
  };
  template <class F>
  __device__ Remembered remember(std::int64_t n, F f) const {
    if (n == 0) return {kept_};
    require_row(n);
#pragma unroll
    for (int c = 0; c < chunks; ++c)
#pragma unroll
      for (int e = 0; e < V; ++e) kept_[c * V + e] = f(place(c, e));
    return {kept_};
  }

  template <class F, class Put>
  __device__ void store(std::int64_t n, F value, Put put) const {
    require_row(n);
    io_.begin_words();
#pragma unroll
    for (int c = 0; c < chunks; ++c) {
      float out[V];
#pragma unroll
      for (int e = 0; e < V; ++e) out[e] = value(place(c, e));
#pragma unroll
      for (int e = 0; e < V; ++e) put(place(c, e), out[e]);
    }
    io_.end_words();
  }

  template <class Kind, class F>
  __device__ auto reduce(std::int64_t n, F term) const {
    using T = decltype(term(std::int64_t{0}));
    if constexpr (!std::is_same_v<T, float>) {
      __trap();  // of variants that do not come here
      return T{};
    } else {
      require_row(n);
      float lane[V];
#pragma unroll
      for (int e = 0; e < V; ++e) lane[e] = term(place(0, e));
#pragma unroll
      for (int c = 1; c < chunks; ++c)
#pragma unroll
        for (int e = 0; e < V; ++e) lane[e] = Kind::combine(lane[e], term(place(c, e)));
      return combined<Kind>(lane);
    }
  }

 private:
  static constexpr int warp = 32;
  static_assert(threads > warp);

  __device__ static void require_row(std::int64_t n) {
    if (n != length) __trap();
  }

  /// Element e of this thread's lanes in a chunk. Of neighbours the compiler shall know the bits,
  /// so that it sees one word; it must not take the sum apart for some of them.
  __device__ static std::int64_t place(int chunk, int e) {
    unsigned first = threadIdx.x;
    if constexpr (V == 1) return (first & (team_width - 1)) + (chunk * team_width);
    asm("mov.u32 %0, %1;" : "=r"(first) : "r"(threadIdx.x * V));
    return (first & (team_width - V)) | (chunk * team_width) | e;
  }

  /// The steps s = 64, 32, ..., 1 of the order: between warps, inside of one, inside of a thread.
  template <class Kind>
  __device__ float combined(float (&lane)[V]) const {
    const int t = static_cast<int>(threadIdx.x);
#pragma unroll
    for (int s = threads / 2; s >= warp; s /= 2) {
      if (t >= s && t < 2 * s)
        for (int e = 0; e < V; ++e) shared_[t * V + e] = lane[e];
      __syncthreads();
      if (t < s)
        for (int e = 0; e < V; ++e) lane[e] = Kind::combine(lane[e], shared_[(t + s) * V + e]);
    }
    if (t < warp) combine_in_warp<Kind>(lane);
    if (t == 0) shared_[0] = lane[0];
    __syncthreads();
    const float result = shared_[0];
    __syncthreads();  // nobody may start the next reduction while someone still reads this one
    return result;
  }
  template <class Kind>
  __device__ static void combine_in_warp(float (&lane)[V]) {
#pragma unroll
    for (int s = warp / 2; s >= 1; s /= 2)
#pragma unroll
      for (int e = 0; e < V; ++e)
        lane[e] = Kind::combine(lane[e], __shfl_down_sync(~0U, lane[e], static_cast<unsigned>(s)));
#pragma unroll
    for (int s = V / 2; s >= 1; s /= 2)
#pragma unroll
      for (int e = 0; e < s; ++e) lane[e] = Kind::combine(lane[e], lane[e + s]);
  }

  const Io& io_;
  float* shared_;
  mutable float kept_[chunks * V];
};

}  // namespace opbound::detail
