#include "distributed/engines.hpp"

#include <array>

#include "distributed/mpi.hpp"
#include "distributed/nccl.hpp"
#include "distributed/simulated.hpp"
#include "distributed/tcp.hpp"

namespace opbound {
namespace {

std::unique_ptr<Engine> simulated_engine(const EngineOptions& options) {
  SimulationOptions w;
  w.seed = options.seed;
  w.lost = options.lost;
  w.dead_rank = options.dead_rank;
  w.dead_round = options.dead_round;
  w.unwaited = options.unwaited;
  return std::make_unique<SimulatedRanks>(options.ranks, std::move(w));
}

using O = const EngineOptions&;

constexpr std::array<EngineKind, 5> kinds{{
    {"simulated", "simulated ranks", simulated_engine},
    {"mpi", "MPI moves, opbound adds", [](O o) { return mpi_engine(o.seconds); }},
    {"mpi_library", "MPI adds, in any order", [](O o) { return mpi_library_engine(o.seconds); }},
    {"nccl", "NCCL adds, in any order; with --order balanced_tree opbound does",
     [](O o) {
       return nccl_engine(o.ranks, {.unwaited = o.unwaited, .is_in_tree = o.is_in_tree}, o.seconds);
     }},
    {"tcp", "sockets move, opbound adds", [](O o) { return tcp_engine(o.seconds); }},
}};

}  // namespace

std::span<const EngineKind> engine_kinds() { return kinds; }

}  // namespace opbound
