#include "distributed/launch.hpp"

#include <array>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "distributed/engine.hpp"
#include "reports/error.hpp"

namespace opbound {
namespace {

struct Variables {
  const char *rank, *size, *local_rank, *local_size, *by;
};
constexpr std::array<Variables, 4> known{{
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", "mpirun"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "mpirun"},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr, "srun"},
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "torchrun"},
}};

bool is_set(const char* name) { return name != nullptr && std::getenv(name) != nullptr; }

std::int32_t number(const char* name, std::int32_t least) {
  const std::string_view text = std::getenv(name);
  std::int32_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < least)
    throw InputError(name, "'" + std::string(text) + "'",
                     "a whole number from " + std::to_string(least) + " on");
  return value;
}

/// A place among so many; who says how many is told.
void require_below(const char* name, std::int32_t place, const char* size_name, std::int32_t size) {
  if (place >= size)
    throw InputError(name, std::to_string(place),
                     "a rank below " + std::string(size_name) + ", " + std::to_string(size));
}

/// Half of what a launcher says would be one rank of its own on every place.
void require_whole(const Variables& v) {
  const bool has_rank = is_set(v.rank);
  if (has_rank == is_set(v.size)) return;
  // Slurm's batch script is process 0 of the job, and of no step.
  if (has_rank && v.by == std::string_view("srun") && number(v.rank, 0) == 0) return;
  throw InputError(has_rank ? v.rank : v.size,
                   std::string("set without ") + (has_rank ? v.size : v.rank),
                   "both, as a launcher sets them, or none");
}

Launched read(const Variables& v) {
  Launched l{number(v.rank, 0), number(v.size, 1), 0, v.by};
  require_below(v.rank, l.rank, v.size, l.size);
  std::int32_t local_size = l.size;
  const char* local_size_name = v.size;
  if (is_set(v.local_size)) {
    local_size = number(v.local_size, 1);
    local_size_name = v.local_size;
    if (local_size > l.size)
      throw InputError(v.local_size, std::to_string(local_size),
                       "at most " + std::string(v.size) + ", " + std::to_string(l.size));
  }
  if (is_set(v.local_rank)) l.local_rank = number(v.local_rank, 0);
  require_below(v.local_rank, l.local_rank, local_size_name, local_size);
  return l;
}

}  // namespace

std::optional<Launched> launched() {
  for (const Variables& v : known)
    if (is_set(v.rank) && is_set(v.size)) return read(v);
  for (const Variables& v : known) require_whole(v);
  return std::nullopt;
}

std::int32_t own_rank() {
  const std::optional<Launched> rank = launched();
  return rank ? rank->rank : 0;
}

double patience() {
  constexpr const char* name = "OPBOUND_TIMEOUT";
  if (!is_set(name)) return default_patience;
  const std::string_view text = std::getenv(name);
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  const bool is_one = error == std::errc{} && end == text.data() + text.size();
  if (!is_one || !(seconds >= 1e-3 && seconds <= 1e6))
    throw InputError(name, "'" + std::string(text) + "'", "seconds from 0.001 to 1000000");
  return seconds;
}

}  // namespace opbound
