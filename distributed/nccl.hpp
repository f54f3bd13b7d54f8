// NCCL as an engine: ranks on GPUs, of this process or of several under mpirun. NCCL is in a module
// of its own, libopbound_nccl.so, which is built where CMake finds it and opened where it is asked
// for.
#pragma once

#include <memory>

#include "distributed/engine.hpp"

namespace opbound {

/// A rank on each of the first `ranks` GPUs of this process, or of all if it is 0; or, where a
/// launcher started several processes, one on each process's GPU, which MPI brings together, or TCP
/// under torchrun.
///
/// The order of additions is NCCL's: what NCCL_ALGO and NCCL_PROTO say is part of the contract, and
/// the bound is for any order. Sums are in the format that is moved. NVLink multicast is off
/// (NCCL_NVLS_ENABLE=0): what a switch adds is rounded in its own way.
/// A run that has not ended after so many seconds is a failure.
/// Throws Unavailable where NCCL or the GPUs are missing, ProviderFailure where it does not start.
std::unique_ptr<Engine> nccl_engine(std::int32_t ranks, std::vector<std::string> unwaited = {},
                                    double seconds = default_patience);

}  // namespace opbound
