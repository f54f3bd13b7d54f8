// NCCL as an engine: ranks on GPUs, of this process or of several that a launcher started. NCCL is
// in a module of its own, libopbound_nccl.so, which is built where CMake finds it and opened where
// it is asked for.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "distributed/engine.hpp"

namespace opbound {

/// on: messages are windows of symmetric memory, which NCCL's symmetric kernels may take (from 2.27
/// on). Skipped where the ranks have none.
inline constexpr const char* symmetric_variable = "OPBOUND_NCCL_SYMMETRIC";
/// off: NCCL moves the balanced tree's shards, also where ranks reach one another's memory.
inline constexpr const char* shared_variable = "OPBOUND_NCCL_SHARED";

struct NcclOptions {
  std::vector<std::string> unwaited{};  ///< tensors whose stream is not waited for
  bool is_in_tree = false;              ///< opbound adds, in the balanced tree's order; else NCCL
  bool is_symmetric = false, is_shared = true;  ///< as the variables say
};

/// Ranks as NcclRanks has them. What NCCL adds is in any order: what NCCL_ALGO and NCCL_PROTO say
/// is part of the contract, and the bound is for any order. Sums are in the format that is moved.
/// A run that has not ended after so many seconds is a failure.
/// Throws Unavailable where NCCL, the GPUs or a kernel are missing, ProviderFailure where it does
/// not start, InputError for a variable that is neither on nor off.
std::unique_ptr<Engine> nccl_engine(std::int32_t ranks, NcclOptions options = {},
                                    double seconds = default_patience);

}  // namespace opbound
