// Ranks that only know who they are, as torchrun starts them: a socket between any two of them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "distributed/engine.hpp"
#include "distributed/launch.hpp"

namespace opbound {

/// Where rank 0 waits for the others: MASTER_ADDR, else the first machine of Slurm's list, else
/// this one; port OPBOUND_PORT, else the one after MASTER_PORT, which torch's own store holds, else
/// one that Slurm's job number gives.
struct MeetingPlace {
  std::string host;
  std::uint16_t port = 0;
};
MeetingPlace meeting_place();

/// The first of "node[07-12,20],login1": "node07".
std::string first_host(const std::string& list);

/// Brings the launched ranks together. Ranks trust one another and their network.
/// Throws ProviderFailure where some do not come within `seconds`, or a minute where that is less.
/// A rank that waits for `seconds` while nothing comes or goes fails in the same way.
std::unique_ptr<Communicator> tcp_communicator(const Launched& rank, const MeetingPlace& place,
                                               double seconds = default_patience);

/// The same as an engine. Throws Unavailable where no launcher says which rank this is.
std::unique_ptr<Engine> tcp_engine(double seconds = default_patience);

}  // namespace opbound
