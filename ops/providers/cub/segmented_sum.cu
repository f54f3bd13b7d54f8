#include "ops/providers/cub/segmented_sum.hpp"

#include <algorithm>

#include "ops/providers/cub/iterators.cuh"

namespace opbound::with_cub {
namespace {

/// What the workspace is for: ids and rows before and after the sort, and CUB's own needs.
struct Scratch {
  long long *ids, *sorted, *rows, *order;
  void* rest;
  std::size_t rest_bytes;
};

constexpr std::size_t alignment = 256;

std::size_t aligned(std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

/// CUB's functions answer what they need where they are given no storage.
std::size_t sort_bytes(const Problem& p, const Scratch& s) {
  std::size_t bytes = 0;
  check(cub::DeviceRadixSort::SortPairs(nullptr, bytes, s.ids, s.sorted, s.rows, s.order, p.rows, 0,
                                        64, p.stream),
        "cub::DeviceRadixSort::SortPairs");
  return bytes;
}

Scratch scratch_of(const Problem& p) {
  const std::size_t array = p.ids == nullptr ? 0 : aligned(sizeof(long long) * p.rows);
  auto* const base = static_cast<unsigned char*>(p.workspace);
  const auto place = [&](int k) { return reinterpret_cast<long long*>(base + k * array); };
  return {place(0), place(1), place(2), place(3), base + 4 * array, p.workspace_size - 4 * array};
}

Index index_of(const opbound_tensor& t) {
  return {t.data, t.stride[0], t.element == OPBOUND_INT64};
}

__global__ void number_rows(Index from, long long count, long long* ids, long long* rows) {
  const long long threads = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += threads) {
    ids[i] = from[i];
    rows[i] = i;
  }
}

void sort_rows(const Problem& p, const Scratch& s) {
  if (p.rows == 0) return;
  const long long blocks = std::min<long long>((p.rows + 255) / 256, 65535);
  number_rows<<<static_cast<unsigned>(blocks), 256, 0, p.stream>>>(index_of(*p.ids), p.rows, s.ids,
                                                                   s.rows);
  check(cudaGetLastError(), "number_rows");
  std::size_t bytes = s.rest_bytes;
  check(cub::DeviceRadixSort::SortPairs(s.rest, bytes, s.ids, s.sorted, s.rows, s.order, p.rows, 0,
                                        64, p.stream),
        "cub::DeviceRadixSort::SortPairs");
}

template <class In, class Out>
void sum(const Problem& p, const Scratch& s, In in, Out out, const Segments& segments) {
  Bounds begin, end;
  begin.segments = end.segments = segments;
  end.is_end = true;
  std::size_t bytes = s.rest_bytes;
  check(cub::DeviceSegmentedReduce::Sum(s.rest, bytes, in, out, p.segments * p.width, begin, end,
                                        p.stream),
        "cub::DeviceSegmentedReduce::Sum");
}

bool is_dense(const opbound_tensor& t) { return t.size[0] <= 1 || t.stride[0] == 1; }

/// Items that lie in memory as CUB wants them are given as pointers, as its users do: several are
/// read at once then.
template <class Sum>
void sum_as(const Problem& p, const Scratch& s, const Segments& segments) {
  const opbound_tensor &x = *p.x, &y = *p.y;
  const bool has_pointers = p.width == 1 && p.ids == nullptr && x.element == p.compute &&
                            y.element == p.compute && is_dense(x) && is_dense(y);
  if (has_pointers)
    return sum(p, s, static_cast<const Sum*>(x.data), static_cast<Sum*>(y.data), segments);
  Elements<Sum> in;
  in.items = {p.ids == nullptr ? nullptr : s.order, p.rows, x.stride[0], x.stride[1]};
  in.data = x.data;
  in.element = x.element;
  Sums<Sum> out;
  out.results = {p.width, y.stride[0], y.stride[1]};
  out.data = y.data;
  out.element = y.element;
  sum(p, s, in, out, segments);
}

}  // namespace

std::size_t workspace_bytes(const Problem& p) {
  if (p.ids == nullptr || p.rows == 0) return alignment;  // DeviceSegmentedReduce wants a byte
  return 4 * aligned(sizeof(long long) * p.rows) + aligned(sort_bytes(p, {})) + alignment;
}

void add_segments(const Problem& p) {
  if (p.segments == 0 || p.width == 0) return;
  const Scratch s = scratch_of(p);
  if (p.ids != nullptr) sort_rows(p, s);
  const Segments segments{p.offsets == nullptr ? Index{} : index_of(*p.offsets),
                          p.ids == nullptr ? nullptr : s.sorted, p.rows, p.width};
  switch (p.compute) {
    case OPBOUND_FP64:
      return sum_as<double>(p, s, segments);
    case OPBOUND_FP32:
      return sum_as<float>(p, s, segments);
    case OPBOUND_BF16:
      return sum_as<__nv_bfloat16>(p, s, segments);
    default:
      return sum_as<__half>(p, s, segments);
  }
}

const char* cccl_version() {
  static const std::string text = std::to_string(CUB_MAJOR_VERSION) + "." +
                                  std::to_string(CUB_MINOR_VERSION) + "." +
                                  std::to_string(CUB_SUBMINOR_VERSION);
  return text.c_str();
}

}  // namespace opbound::with_cub
