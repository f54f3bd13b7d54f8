// The engines that there are, by the names that `opbound collective --engine` takes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "distributed/engine.hpp"
#include "distributed/launch.hpp"

namespace opbound {

/// What engines are told; each takes what is for it.
struct EngineOptions {
  std::int32_t ranks = 0;  ///< simulated, or GPUs of this process; 0: all that there are
  std::uint64_t seed = 1;
  double lost = 0;  ///< of simulated ranks, as the next two
  std::int32_t dead_rank = -1, dead_round = 0;
  std::vector<std::string> unwaited{};  ///< tensors, of simulated streams or of a GPU's
  bool is_in_tree = false;              ///< of nccl: opbound adds, in the balanced tree's order
  double seconds = default_patience;    ///< how long real ranks wait for one another
};

/// The orders that an engine can be asked to add in.
enum class Orders : std::uint8_t { all, tree, none };

/// An engine before it is made, and what of EngineOptions means something to it.
struct EngineKind {
  std::string_view name, what;
  std::unique_ptr<Engine> (*make)(const EngineOptions&);  ///< throws as the engine's own maker
  Orders orders = Orders::all;    ///< tree: of the balanced tree alone, where that is asked for
  bool is_simulated = false;      ///< any number of ranks; messages are lost and ranks die
  bool has_ranks_of_own = false;  ///< without a launcher, several of them in this process
  bool has_streams = false;       ///< that write tensors, and need not be waited for
};

std::span<const EngineKind> engine_kinds();

/// The one that brings together what a launcher started; simulated ranks where none did.
std::string_view usual_engine(const std::optional<Launched>& launch);

}  // namespace opbound
