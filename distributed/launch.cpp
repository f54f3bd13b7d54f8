#include "distributed/launch.hpp"

#include <array>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "reports/error.hpp"

namespace opbound {
namespace {

struct Variables {
  const char *rank, *size, *local_rank, *by;
};
constexpr std::array<Variables, 4> known{{
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "mpirun"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "mpirun"},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "srun"},
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "torchrun"},
}};

std::int32_t number(const char* name, std::int32_t least) {
  const std::string_view text = std::getenv(name);
  std::int32_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < least)
    throw InputError(name, "'" + std::string(text) + "'",
                     "a whole number from " + std::to_string(least) + " on");
  return value;
}

}  // namespace

std::optional<Launched> launched() {
  for (const Variables& v : known) {
    if (std::getenv(v.rank) == nullptr || std::getenv(v.size) == nullptr) continue;
    const std::int32_t local = std::getenv(v.local_rank) == nullptr ? 0 : number(v.local_rank, 0);
    const Launched l{number(v.rank, 0), number(v.size, 1), local, v.by};
    if (l.rank >= l.size)
      throw InputError(v.rank, std::to_string(l.rank),
                       "a rank below " + std::string(v.size) + ", " + std::to_string(l.size));
    return l;
  }
  return std::nullopt;
}

}  // namespace opbound
