// Which of how many ranks a process is, as its launcher says in the environment.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace opbound {

struct Launched {
  std::int32_t rank = 0, size = 1;
  std::int32_t local_rank = 0;  ///< among those of its machine; 0 where nobody says
  std::string by;               ///< "mpirun", "srun", "torchrun"
};

/// From the variables of Open MPI, of MPICH and Intel MPI (PMI), of a step of Slurm, or from RANK
/// and WORLD_SIZE, as torchrun sets them; the first that are set. Nothing where none are, and in
/// Slurm's batch script, which is process 0 of no step. Throws InputError for a variable that is no
/// number, a rank that is not below the size, a place on a machine that is not below its ranks, and
/// for half of a launcher's variables where no other launcher's are whole.
std::optional<Launched> launched();

/// As `launched` says it; 0 where no launcher does.
std::int32_t own_rank();

/// Seconds for which a training run's ranks wait for one that does not go on: OPBOUND_TIMEOUT, or
/// 600. Throws InputError for anything but a number from 1e-3 to 1e6.
double patience();

}  // namespace opbound
