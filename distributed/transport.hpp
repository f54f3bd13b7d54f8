// Which transport brings together the ranks that a launcher started.
#pragma once

#include <memory>
#include <string>

#include "distributed/communicator.hpp"
#include "distributed/launch.hpp"

namespace opbound {

struct Transport {
  std::unique_ptr<Communicator> communicator;
  std::string name;
};

/// TCP under torchrun, MPI under all others. Throws as they do, and ProviderFailure where the
/// transport knows of another number of ranks than the launcher.
Transport join_launched(const Launched& launch, double seconds);

}  // namespace opbound
