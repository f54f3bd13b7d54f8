// MPI's ranks as engines. MPI is in a module of its own, libopbound_mpi.so beside the program or
// above it, which is built where CMake finds MPI and opened where it is asked for.
#pragma once

#include <memory>

#include "distributed/engine.hpp"

namespace opbound {

/// MPI moves the messages, opbound adds: the order is the schedule's.
/// Throws Unavailable where there is no module, and ProviderFailure where MPI does not start.
std::unique_ptr<Engine> mpi_engine();

/// MPI's own MPI_Allreduce, MPI_Reduce_scatter, MPI_Allgatherv and MPI_Bcast: in any order.
std::unique_ptr<Engine> mpi_library_engine();

}  // namespace opbound
