#include "distributed/transport.hpp"

#include "distributed/mpi.hpp"
#include "distributed/tcp.hpp"
#include "ops/provider.hpp"

namespace opbound {

Transport join_launched(const Launched& launch, double seconds) {
  Transport t;
  if (launch.by == "torchrun") {
    t.name = "tcp";
    t.communicator =
        tcp_communicator(launch, launch.size == 1 ? MeetingPlace{} : meeting_place(), seconds);
  } else {
    t.name = "mpi";
    t.communicator = mpi_communicator(seconds);
  }
  if (t.communicator->size() != launch.size)
    throw ProviderFailure(launch.by + " started " + std::to_string(launch.size) +
                          " ranks, of which " + t.name + " knows " +
                          std::to_string(t.communicator->size()));
  return t;
}

}  // namespace opbound
