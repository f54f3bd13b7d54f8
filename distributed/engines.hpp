// The engines that there are, by the names that `opbound collective --engine` takes.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "distributed/engine.hpp"

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

struct EngineKind {
  std::string_view name, what;
  std::unique_ptr<Engine> (*make)(const EngineOptions&);  ///< throws as the engine's own maker
};

std::span<const EngineKind> engine_kinds();

}  // namespace opbound
