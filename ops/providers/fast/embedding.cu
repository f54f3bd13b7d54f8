// Rows of a table, and the gradient of the table: tokens sorted by their row, in the order in which
// they came, so that a row's sum is always the same one.
#include <algorithm>
#include <cub/device/device_radix_sort.cuh>

#include "ops/providers/fast/numbers.cuh"

namespace opbound::fast {
namespace {

constexpr int threads = 256;

template <class Y, class X>
__global__ void gather(const X* table, const std::int64_t* index, std::int64_t tokens,
                       std::int64_t vocab, std::int64_t width, Y* y) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < tokens * width;
       i += step) {
    const std::int64_t row = index[i / width];
    const bool is_there = 0 <= row && row < vocab;
    y[i] = narrow<Y>(is_there ? wide(table[row * width + i % width]) : NAN);
  }
}

/// What is no row, and the padding's, sorts behind all rows.
__global__ void keys_of(const std::int64_t* index, int tokens, std::int64_t vocab,
                        std::int64_t padding, unsigned* keys, int* places) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= tokens) return;
  const std::int64_t row = index[i];
  const bool counts = 0 <= row && row < vocab && row != padding;
  keys[i] = static_cast<unsigned>(counts ? row : vocab);
  places[i] = i;
}

/// The first place in ascending keys that is not below `key`.
__device__ int lower_bound(const unsigned* keys, int count, unsigned key) {
  int low = 0;
  for (int left = count; left > 0;) {
    const int half = left / 2;
    if (keys[low + half] < key) {
      low += half + 1;
      left -= half + 1;
    } else {
      left = half;
    }
  }
  return low;
}

/// A block for each row, a thread for each column: a row that many tokens have takes as long as it
/// has tokens.
constexpr int most_columns = 1024;

template <class X>
__global__ void __launch_bounds__(most_columns)
    add_rows(const unsigned* keys, const int* places, int tokens, const X* dy, std::int64_t vocab,
             std::int64_t width, Vector dtable) {
  constexpr int ahead = 16;  // loads under way at the same time; the sum stays in turn
  for (std::int64_t row = blockIdx.x; row < vocab; row += gridDim.x) {
    const int begin = lower_bound(keys, tokens, static_cast<unsigned>(row));
    const int end = lower_bound(keys, tokens, static_cast<unsigned>(row) + 1);
    for (std::int64_t j = threadIdx.x; j < width; j += blockDim.x) {
      float sum = 0;
      int i = begin;
      for (; i + ahead <= end; i += ahead) {
        float term[ahead];
        for (int k = 0; k < ahead; ++k) term[k] = wide(dy[places[i + k] * width + j]);
        for (int k = 0; k < ahead; ++k) sum = sum + term[k];
      }
      for (; i < end; ++i) sum = sum + wide(dy[places[i] * width + j]);
      dtable.put(row * width + j, sum);
    }
  }
}

// ---- host

const std::int64_t* index_of(const Call& c) {
  const opbound_tensor& index = c.tensor("index");
  require(index.element == OPBOUND_INT64 && is_contiguous(index),
          "its index is int64 without gaps");
  return static_cast<const std::int64_t*>(index.data);
}

void forward(const Call& c) {
  const opbound_tensor &table = dense(c, "table"), &y = dense(c, "y");
  if (count_of(y) == 0) return;
  with_type(y.element, [&](auto out) {
    with_type(table.element, [&](auto in) {
      gather<<<blocks_for(count_of(y), threads), threads, 0, stream_of(c)>>>(
          static_cast<const decltype(in)*>(table.data), index_of(c), y.size[0], table.size[0],
          y.size[1], static_cast<decltype(out)*>(y.data));
    });
  });
  check_launch();
}

/// Keys and places, each unsorted and sorted, then what the sort needs.
struct Sorting {
  int tokens, bits = 1;
  std::size_t array, scratch = 0;

  Sorting(std::int64_t count, std::int64_t vocab) : tokens(static_cast<int>(count)) {
    require(count < (1 << 24) && vocab < (1 << 30), "it sorts up to 2^24 tokens");
    while ((std::int64_t{1} << bits) <= vocab) ++bits;
    array = (static_cast<std::size_t>(tokens) * sizeof(int) + 255) / 256 * 256;
    check(cub::DeviceRadixSort::SortPairs(
        nullptr, scratch, static_cast<const unsigned*>(nullptr), static_cast<unsigned*>(nullptr),
        static_cast<const int*>(nullptr), static_cast<int*>(nullptr), tokens, 0, bits));
  }
  std::size_t bytes() const { return 4 * array + scratch; }
  static void check(cudaError_t status) {
    if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
  }
};

void backward(const Call& c) {
  const opbound_tensor &dy = dense(c, "dy"), &dtable = dense(c, "dtable");
  if (count_of(dtable) == 0) return;
  Sorting s(dy.size[0], dtable.size[0]);
  require(c.get().workspace_size >= s.bytes(), "too small a workspace");
  auto* const memory = static_cast<char*>(c.get().workspace);
  auto* const keys = reinterpret_cast<unsigned*>(memory);
  auto* const sorted_keys = reinterpret_cast<unsigned*>(memory + s.array);
  auto* const places = reinterpret_cast<int*>(memory + 2 * s.array);
  auto* const sorted_places = reinterpret_cast<int*>(memory + 3 * s.array);
  if (s.tokens > 0) {
    keys_of<<<blocks_for(s.tokens, threads), threads, 0, stream_of(c)>>>(
        index_of(c), s.tokens, dtable.size[0], c.whole("padding_idx"), keys, places);
    Sorting::check(cub::DeviceRadixSort::SortPairs(memory + 4 * s.array, s.scratch, keys,
                                                   sorted_keys, places, sorted_places, s.tokens, 0,
                                                   s.bits, stream_of(c)));
  }
  const auto columns =
      static_cast<unsigned>(std::min<std::int64_t>((dtable.size[1] + 31) / 32 * 32, most_columns));
  with_type(dy.element, [&](auto type) {
    add_rows<<<blocks_for(dtable.size[0], 1), columns, 0, stream_of(c)>>>(
        sorted_keys, sorted_places, s.tokens, static_cast<const decltype(type)*>(dy.data),
        dtable.size[0], dtable.size[1], vector_of(dtable));
  });
  check_launch();
}

void embedding(const Call& c) { c.is_backward() ? backward(c) : forward(c); }

std::size_t workspace(const Call& c) {
  if (!c.is_backward()) return 0;
  return Sorting(c.tensor("dy").size[0], c.tensor("dtable").size[0]).bytes();
}

}  // namespace

void add_embedding(Kernels& kernels) {
  kernels.push_back({"embedding", nullptr, "gather", embedding, workspace});
}

}  // namespace opbound::fast
