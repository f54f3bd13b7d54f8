#include "distributed/engines.hpp"

#include <array>

#include "distributed/mpi.hpp"
#include "distributed/nccl.hpp"
#include "distributed/tcp.hpp"
#include "distributed/world.hpp"

namespace opbound {
namespace {

std::unique_ptr<Engine> world_engine(const EngineOptions& options) {
  WorldOptions w;
  w.seed = options.seed;
  w.lost = options.lost;
  w.dead_rank = options.dead_rank;
  w.dead_round = options.dead_round;
  w.unwaited = options.unwaited;
  return std::make_unique<World>(options.ranks, std::move(w));
}

using O = const EngineOptions&;

constexpr std::array<EngineKind, 5> kinds{{
    {"world", "simulated ranks", world_engine},
    {"mpi", "MPI moves, opbound adds", [](O o) { return mpi_engine(o.seconds); }},
    {"mpi_library", "MPI adds, in any order", [](O o) { return mpi_library_engine(o.seconds); }},
    {"nccl", "NCCL adds, in any order",
     [](O o) { return nccl_engine(o.ranks, o.unwaited, o.seconds); }},
    {"tcp", "sockets move, opbound adds", [](O o) { return tcp_engine(o.seconds); }},
}};

}  // namespace

std::span<const EngineKind> engine_kinds() { return kinds; }

}  // namespace opbound
