// The ranks of NCCL that live in this process: the module, and what brings them together.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "distributed/engine.hpp"
#include "distributed/launch.hpp"
#include "distributed/modules/nccl_transport.hpp"

namespace opbound {

/// One of them at a time in a process. NVLink multicast is off (NCCL_NVLS_ENABLE=0): what a switch
/// adds is rounded in its own way.
class NcclRanks {
 public:
  /// A rank on each of the first `ranks` GPUs, or of all if it is 0. Where a launcher started
  /// several processes, one in each, on the GPU of its place on its machine, which MPI or TCP bring
  /// together; `ranks` is nothing then. Throws Unavailable where the module or a GPU is missing,
  /// ProviderFailure where NCCL does not start.
  NcclRanks(std::int32_t ranks, double seconds, int first_device = 0);
  NcclRanks(const NcclRanks&) = delete;
  NcclRanks& operator=(const NcclRanks&) = delete;
  ~NcclRanks();

  const NcclTransport& module() const { return nccl_; }
  const Placement& placement() const { return placement_; }
  double seconds() const { return seconds_; }
  int first_device() const { return first_device_; }
  /// "2.28.9"
  std::string version() const;
  /// Who started the processes; empty for one.
  const std::string& launcher() const { return launcher_; }
  std::vector<std::byte> gather(std::span<const std::byte> of_local_ranks);

  /// Throws for an error of the module: Unavailable for what is not there, else ProviderFailure.
  void require(const char* error) const;

 private:
  void join(const Launched& launch);

  NcclTransport nccl_;
  std::unique_ptr<Communicator> transport_;  ///< where there are several processes
  Placement placement_;
  int first_device_ = 0;
  std::string launcher_;
  double seconds_;
};

/// A sum as the module is told it: by NCCL, or in a tree by our kernel. The elements of a mean that
/// divides before are divided already.
NcclSum nccl_sum_of(const Reducer& reducer, bool is_in_tree);

}  // namespace opbound
