// A thread block for each block of the fingerprint, a thread for each lane: the same sums in the
// same order as on the host. Then the blocks of each part, one after the other.
#include <algorithm>

#include "distributed/trace/device_sums.hpp"
#include "ops/cuda.hpp"
#include "ops/format.hpp"
#include "ops/hash.hpp"

namespace opbound::trace {
namespace {

constexpr int lanes = static_cast<int>(sketch_width);
constexpr int rows = static_cast<int>(block_elements / sketch_width);

/// Elements [first, first + count) of a parameter, within one block.
struct Block {
  std::uint64_t key;
  std::int64_t first, offset;
  int count;
};

struct Row {
  std::uint64_t signs;
  int rotation;
};

/// Sums of a block: of each lane, and what is counted.
struct BlockSums {
  double sketch[lanes];
  double sum, square;
  std::uint64_t hash;
  std::int64_t nonfinite;
};

__device__ std::uint64_t bits_of(float x) {
  return x == x ? static_cast<std::uint64_t>(__float_as_uint(x))
                : encode(format_of(Element::fp32), static_cast<double>(x));
}

/// The sum over lanes in turn; thread 0 has it.
template <class T>
__device__ T in_turn(T* shared, T own) {
  __syncthreads();
  shared[threadIdx.x] = own;
  __syncthreads();
  T all{};
  if (threadIdx.x == 0)
    for (int l = 0; l < lanes; ++l) all += shared[l];
  return all;
}

__global__ void __launch_bounds__(lanes)
    sum_blocks(const Block* blocks, const float* array, BlockSums* to) {
  __shared__ Row row_of[rows];
  __shared__ double doubles[lanes];
  __shared__ std::uint64_t wholes[lanes];
  const Block b = blocks[blockIdx.x];
  const std::int64_t first_row = b.first / lanes, end = b.first + b.count;
  const int count = static_cast<int>((end + lanes - 1) / lanes - first_row);
  for (int r = static_cast<int>(threadIdx.x); r < count; r += lanes) {
    const std::uint64_t signs = element_hash(first_row + r, b.key);
    row_of[r] = {signs, static_cast<int>(element_hash(first_row + r, signs) % lanes)};
  }
  __syncthreads();
  double sum = 0, square = 0, sketch = 0;
  std::uint64_t hash = 0, nonfinite = 0;
  for (int r = 0; r < count; ++r) {
    const Row row = row_of[r];
    const int e = (static_cast<int>(threadIdx.x) + lanes - row.rotation) % lanes;
    const std::int64_t i = (first_row + r) * lanes + e;
    double x = 0;
    if (i >= b.first && i < end) {
      const float g = array[b.offset + (i - b.first)];
      hash += element_hash(i, bits_of(g));
      const bool is_finite = g - g == 0;
      nonfinite += is_finite ? 0 : 1;
      x = is_finite ? static_cast<double>(g) : 0;
    }
    sum = sum + x;
    square = square + x * x;
    sketch = sketch + ((row.signs >> e & 1U) != 0 ? -x : x);
  }
  BlockSums& all = to[blockIdx.x];
  all.sketch[threadIdx.x] = sketch;
  sum = in_turn(doubles, sum);
  square = in_turn(doubles, square);
  hash = in_turn(wholes, hash);
  nonfinite = in_turn(wholes, nonfinite);
  if (threadIdx.x != 0) return;
  all.sum = sum;
  all.square = square;
  all.hash = hash;
  all.nonfinite = static_cast<std::int64_t>(nonfinite);
}

/// Part p's blocks are [begin[p], begin[p + 1]).
__global__ void __launch_bounds__(lanes)
    sum_parts(const BlockSums* blocks, const int* begin, GradientSums* to) {
  const int first = begin[blockIdx.x], last = begin[blockIdx.x + 1];
  double sketch = 0;
  for (int b = first; b < last; ++b) sketch = sketch + blocks[b].sketch[threadIdx.x];
  GradientSums& all = to[blockIdx.x];
  all.sketch[threadIdx.x] = sketch;
  if (threadIdx.x != 0) return;
  double sum = 0, square = 0;
  std::uint64_t hash = 0;
  std::int64_t nonfinite = 0;
  for (int b = first; b < last; ++b) {
    sum = sum + blocks[b].sum;
    square = square + blocks[b].square;
    hash += blocks[b].hash;
    nonfinite += blocks[b].nonfinite;
  }
  all.sum = sum;
  all.square = square;
  all.hash = hash;
  all.nonfinite = nonfinite;
}

/// Which blocks there are, and where each part's begin.
struct Table {
  std::vector<Block> blocks;
  std::vector<int> begin;

  explicit Table(const std::vector<SummedPart>& parts) {
    for (const SummedPart& p : parts) {
      begin.push_back(static_cast<int>(blocks.size()));
      for (std::int64_t at = p.first; at < p.first + p.count;) {
        const std::int64_t end =
            std::min(p.first + p.count, (at / block_elements + 1) * block_elements);
        blocks.push_back({p.key, at, p.offset + (at - p.first), static_cast<int>(end - at)});
        at = end;
      }
    }
    begin.push_back(static_cast<int>(blocks.size()));
  }
};

class CudaSums final : public DeviceSums {
 public:
  explicit CudaSums(const std::vector<SummedPart>& parts) : CudaSums(parts, Table(parts)) {}

  ~CudaSums() override {  // a broken device was told before
    cudaStreamSynchronize(stream_);
    cudaEventDestroy(ready_);
    cudaStreamDestroy(stream_);
  }

  void start(const std::byte* array, void* stream) override {
    sums_.assign(parts_.size(), {});
    if (count_ == 0) return;
    OPBOUND_CUDA_CHECK(cudaEventRecord(ready_, static_cast<cudaStream_t>(stream)));
    OPBOUND_CUDA_CHECK(cudaStreamWaitEvent(stream_, ready_, 0));
    sum_blocks<<<static_cast<unsigned>(count_), lanes, 0, stream_>>>(
        blocks_.as<Block>(), reinterpret_cast<const float*>(array), of_blocks_.as<BlockSums>());
    OPBOUND_CUDA_CHECK(cudaGetLastError());
    sum_parts<<<static_cast<unsigned>(parts_.size()), lanes, 0, stream_>>>(
        of_blocks_.as<BlockSums>(), begin_.as<int>(), of_parts_.as<GradientSums>());
    OPBOUND_CUDA_CHECK(cudaGetLastError());
  }

  std::vector<GradientSums> finish() override {
    if (count_ > 0) {
      OPBOUND_CUDA_CHECK(cudaMemcpyAsync(sums_.data(), of_parts_.data(),
                                         sums_.size() * sizeof(GradientSums),
                                         cudaMemcpyDeviceToHost, stream_));
      OPBOUND_CUDA_CHECK(cudaStreamSynchronize(stream_));
    }
    for (std::size_t p = 0; p < sums_.size(); ++p) sums_[p].count = parts_[p].count;
    return sums_;
  }

 private:
  CudaSums(const std::vector<SummedPart>& parts, const Table& table)
      : parts_(parts),
        count_(table.blocks.size()),
        blocks_(table.blocks.size() * sizeof(Block)),
        begin_(table.begin.size() * sizeof(int)),
        of_blocks_(table.blocks.size() * sizeof(BlockSums)),
        of_parts_(parts.size() * sizeof(GradientSums)) {
    blocks_.copy_from_host(table.blocks.data());
    begin_.copy_from_host(table.begin.data());
    OPBOUND_CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    OPBOUND_CUDA_CHECK(cudaEventCreateWithFlags(&ready_, cudaEventDisableTiming));
  }

  std::vector<SummedPart> parts_;
  std::size_t count_;  ///< of blocks
  cuda::Memory blocks_, begin_, of_blocks_, of_parts_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t ready_ = nullptr;
  std::vector<GradientSums> sums_;
};

}  // namespace

std::unique_ptr<DeviceSums> device_sums(const std::vector<SummedPart>& parts) {
  return std::make_unique<CudaSums>(parts);
}

}  // namespace opbound::trace
