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
/// and WORLD_SIZE, as torchrun sets them; the first that are set. Nothing where none are. Throws
/// InputError for a variable that is no number, and for a rank that is not below the size.
std::optional<Launched> launched();

}  // namespace opbound
