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

/// One collective, over the ranks of this process. A mean is NCCL's: each term is multiplied by 1
/// over the ranks, then added. The element is_moved_and_added.
struct NcclCall {
  Collective collective = Collective::all_reduce;
  all_reduce::Reduction reduction = all_reduce::Reduction::sum;
  Element element = Element::fp32;
  std::int64_t count = 0, shard = 0;  ///< elements of a message, and of each rank's part of it
  std::int64_t offset = 0;            ///< elements that it begins behind an aligned address
  std::span<void* const> data;        ///< on the host, a rank each: given, then results
  std::span<const NcclPart> parts;
  double seconds = 60;  ///< gives up where a rank is not done by then
};

struct NcclTransport {
  int version = 0;  ///< of the library that runs: 22809
  int devices = 0;  ///< GPUs that this process sees

  /// What rank 0 tells all others, nccl_id_bytes of it.
  const char* (*unique_id)(std::byte* id) = nullptr;
  /// Rank first_rank + k is on devices[k]. Without an id all ranks are here.
  const char* (*start)(std::span<const int> devices, int first_rank, int ranks,
                       const std::byte* id) = nullptr;
  const char* (*run)(const NcclCall&) = nullptr;
  const char* (*finish)() = nullptr;
};

/// What the module exports under the name `opbound_nccl_open`: looks for GPUs, fills the table.
using OpenNccl = const char* (*)(NcclTransport*);

}  // namespace opbound
