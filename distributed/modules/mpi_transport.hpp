// What the module libopbound_mpi.so gives: MPI behind a table of functions, so that the program
// itself needs no MPI to start, and no exception crosses from one library to another.
//
// Every function but `abort` gives null, or what failed in MPI's own words.
#pragma once

#include <cstddef>
#include <cstdint>

#include "distributed/communicator.hpp"
#include "distributed/modules/library_element.hpp"
#include "ops/all_reduce.hpp"
#include "ops/tensor.hpp"

namespace opbound {

struct MpiTransport {
  std::int32_t rank = 0, size = 1;
  const char* version = "";  ///< of the library

  /// Gives up where it is not done after so many seconds, and at once where a rank sends another
  /// number of bytes than is due.
  const char* (*exchange)(std::span<const Sent>, std::span<const Received>,
                          double seconds) = nullptr;

  // The library's own collectives, over count elements in place; adds in the element's format. A
  // shard is `shard` elements, or what is left of them.
  const char* (*all_reduce)(Element, all_reduce::Reduction, void*, std::int64_t count) = nullptr;
  const char* (*reduce_scatter)(Element, all_reduce::Reduction, void*, std::int64_t count,
                                std::int64_t shard) = nullptr;
  const char* (*all_gather)(Element, void*, std::int64_t count, std::int64_t shard) = nullptr;
  const char* (*broadcast)(Element, void*, std::int64_t count) = nullptr;

  const char* (*finish)() = nullptr;
  void (*abort)(int code) = nullptr;
};

/// What the module exports under the name `opbound_mpi_start`: starts MPI and fills the table.
using StartMpi = const char* (*)(MpiTransport*);

}  // namespace opbound
