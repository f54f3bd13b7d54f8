// MPI's ranks as engines. MPI is in a module of its own, libopbound_mpi.so beside the program or
// above it, which is built where CMake finds MPI and opened where it is asked for.
#pragma once

#include <memory>

#include "distributed/engine.hpp"

namespace opbound {

/// MPI moves the messages, opbound adds: the order is the schedule's. A message that has not come
/// after so many seconds is a failure.
/// Throws Unavailable where there is no module, and ProviderFailure where MPI does not start.
std::unique_ptr<Engine> mpi_engine(double seconds = default_patience);

/// The transport alone.
std::unique_ptr<Communicator> mpi_communicator(double seconds = default_patience);

/// MPI's own MPI_Allreduce, MPI_Reduce_scatter, MPI_Allgatherv and MPI_Bcast: in any order. Only
/// what the checks tell one another has a limit of seconds.
std::unique_ptr<Engine> mpi_library_engine(double seconds = default_patience);

}  // namespace opbound
