// What the module libopbound_nccl.so gives: NCCL behind a table of functions, so that the program
// starts without a GPU, and no exception crosses from one library to another.
//
// Every function gives null, or what failed in NCCL's or CUDA's own words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "distributed/modules/library_element.hpp"
#include "distributed/schedule.hpp"
#include "ops/all_reduce.hpp"
#include "ops/tensor.hpp"

namespace opbound {

inline constexpr std::size_t nccl_id_bytes = 128;

/// A part of every rank's message: how its stream writes it, and whether NCCL's waits for it.
struct NcclPart {
  Chunk range;
  bool is_late = false;  ///< the stream that writes it does something else first
  bool is_waited = true;
};

/// How elements become one. NCCL's own mean multiplies each term by 1 over the ranks, then adds.
struct NcclSum {
  all_reduce::Reduction reduction = all_reduce::Reduction::sum;
  Element element = Element::fp32;  ///< what travels
  bool is_in_tree = false;          ///< added by our kernel in the balanced tree's order; else NCCL
  Element compute = Element::fp32;  ///< of the tree
  double divisor = 0;               ///< of the tree's root; 0: not divided
};

/// One collective, over the ranks of this process, of elements on the host.
struct NcclCall {
  Collective collective = Collective::all_reduce;
  NcclSum sum{};
  int ranks = 0;                      ///< the first so many take part; of a tree may be fewer
  std::int64_t count = 0, shard = 0;  ///< elements of a message, and of each rank's part of it
  std::int64_t offset = 0;            ///< elements that it begins behind an aligned address
  std::span<void* const> data;        ///< on the host, a rank each: given, then results
  std::span<double> ms;               ///< a rank each: from its message's being ready to its result
  std::span<const NcclPart> parts;
  double seconds = 60;        ///< gives up where a rank is not done by then
  bool is_symmetric = false;  ///< messages are windows that NCCL's symmetric kernels may take
  bool is_shared = true;      ///< a tree's messages may be read and written by other ranks
  bool is_otherwise = false;  ///< streams of another priority, ranks that start late
};

/// One collective put into streams, in place; nothing waits. An element for each rank of this
/// process in `data` and `streams`.
struct NcclLaunch {
  Collective collective = Collective::all_reduce;
  NcclSum sum{};
  int ranks = 0;  ///< the first so many take part
  std::int64_t count = 0;
  std::span<void* const> data;
  std::span<void* const> streams;
  bool may_share = true;  ///< go through memory that is shared
};

/// What other processes need to reach a rank's memory.
inline constexpr std::size_t nccl_handle_bytes = 128;

struct NcclTransport {
  int version = 0;           ///< of the library that runs: 22809
  int devices = 0;           ///< GPUs that this process sees
  bool has_kernels = false;  ///< made with nvcc: sums in a tree, `add`

  /// Was what failed last asked of a build, a library or devices that do not have it? Else it
  /// broke.
  bool (*is_absent)() = nullptr;
  /// What rank 0 tells all others, nccl_id_bytes of it.
  const char* (*unique_id)(std::byte* id) = nullptr;
  /// Rank first_rank + k is on devices[k]. Without an id all ranks are here.
  const char* (*start)(std::span<const int> devices, int first_rank, int ranks,
                       const std::byte* id) = nullptr;
  const char* (*run)(const NcclCall&) = nullptr;

  const char* (*launch)(const NcclLaunch&) = nullptr;
  /// sum = sum + term on the device of this process's first rank, as a node of the tree, or its
  /// root where sum.divisor is not 0.
  const char* (*add)(void* sum, const void* term, std::int64_t count, const NcclSum&,
                     void* stream) = nullptr;
  /// A rank of a process of its own: what it tells all others of memory that they may use, and what
  /// it does with what they told, in the order of the ranks. Without handles the ranks are all
  /// here, on `data` of each.
  const char* (*offer)(void* data, std::byte* handles) = nullptr;
  const char* (*share)(std::span<void* const> data, std::int64_t bytes,
                       std::span<const std::byte> handles, double seconds) = nullptr;
  /// Forgets what was shared last, where not all ranks could.
  const char* (*unshare)() = nullptr;
  /// Waits for the stream of this process's first rank, no longer than so many seconds.
  const char* (*wait)(void* stream, double seconds) = nullptr;
  const char* (*finish)() = nullptr;
};

/// What the module exports under the name `opbound_nccl_open`: looks for GPUs, fills the table.
using OpenNccl = const char* (*)(NcclTransport*);

}  // namespace opbound
