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
    {.name = "simulated",
     .what = "simulated ranks",
     .make = simulated_engine,
     .is_simulated = true,
     .has_ranks_of_own = true,
     .has_streams = true},
    {.name = "mpi",
     .what = "MPI moves, opbound adds",
     .make = [](O o) { return mpi_engine(o.seconds); }},
    {.name = "mpi_library",
     .what = "MPI adds, in any order",
     .make = [](O o) { return mpi_library_engine(o.seconds); },
     .orders = Orders::none},
    {.name = "nccl",
     .what = "NCCL adds, in any order; with --order balanced_tree opbound does",
     .make =
         [](O o) {
           return nccl_engine(o.ranks, {.unwaited = o.unwaited, .is_in_tree = o.is_in_tree},
                              o.seconds);
         },
     .orders = Orders::tree,
     .has_ranks_of_own = true,
     .has_streams = true},
    {.name = "tcp",
     .what = "sockets move, opbound adds",
     .make = [](O o) { return tcp_engine(o.seconds); }},
}};

}  // namespace

std::span<const EngineKind> engine_kinds() { return kinds; }

std::string_view usual_engine(const std::optional<Launched>& launch) {
  if (!launch) return "simulated";
  return launch->by == "torchrun" ? "tcp" : "mpi";
}

}  // namespace opbound
