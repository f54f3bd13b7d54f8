#include "distributed/nccl_ranks.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>

#include "distributed/module.hpp"
#include "distributed/transport.hpp"
#include "ops/provider.hpp"
#include "reports/error.hpp"

namespace opbound {

NcclRanks::NcclRanks(std::int32_t ranks, double seconds, int first_device)
    : first_device_(first_device), seconds_(seconds) {
  setenv("NCCL_NVLS_ENABLE", "0", 1);
  const auto open =
      reinterpret_cast<OpenNccl>(open_module("nccl", "libopbound_nccl.so", "opbound_nccl_open"));
  if (const char* error = open(&nccl_)) throw Unavailable(std::string("nccl: ") + error);
  const auto launch = launched();
  if (launch && launch->size > 1) {
    if (first_device != 0)
      throw InputError("device", "cuda:" + std::to_string(first_device) + " beside " + launch->by,
                       "cuda: each rank has the device of its place on its machine");
    join(*launch);
    return;
  }
  const std::int32_t all = ranks > 0 ? ranks : nccl_.devices;
  if (nccl_.devices < first_device + std::max(all, 1))
    throw Unavailable("nccl: " + std::to_string(nccl_.devices) + " GPUs for " +
                      std::to_string(std::max(all, 1)) + " ranks from device " +
                      std::to_string(first_device) + " on");
  placement_ = {all, 0, all};
  std::vector<int> devices(static_cast<std::size_t>(all));
  std::iota(devices.begin(), devices.end(), first_device);
  require(nccl_.start(devices, 0, all, nullptr));
}

NcclRanks::~NcclRanks() {
  // nobody takes memory away that others still read
  if (transport_) {
    try {
      gather({});
    } catch (const ProviderFailure& e) {
      std::fprintf(stderr, "opbound: %s\n", e.what());
    }
  }
  if (const char* error = nccl_.finish()) std::fprintf(stderr, "opbound: %s\n", error);
}

/// Rank 0's id reaches the others through the transport.
void NcclRanks::join(const Launched& launch) {
  launcher_ = launch.by;
  transport_ = join_launched(launch, seconds_).communicator;
  placement_ = {transport_->size(), transport_->rank(), 1};
  if (nccl_.devices == 0) throw Unavailable("nccl: no GPU");
  std::vector<std::byte> id(nccl_id_bytes);
  if (placement_.first == 0) require(nccl_.unique_id(id.data()));
  id = gather(id);
  first_device_ = launch.local_rank % nccl_.devices;
  require(nccl_.start({&first_device_, 1}, placement_.first, placement_.ranks, id.data()));
}

std::string NcclRanks::version() const {
  const int v = nccl_.version;  // from 2.9 on: major 10000, minor 100
  return std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." +
         std::to_string(v % 100);
}

std::vector<std::byte> NcclRanks::gather(std::span<const std::byte> own) {
  if (transport_) return gather_all(*transport_, own);
  return {own.begin(), own.end()};
}

void NcclRanks::require(const char* error) const {
  if (error == nullptr) return;
  const std::string text = std::string("nccl: ") + error;
  if (nccl_.is_absent()) throw Unavailable(text);
  throw ProviderFailure(text);
}

NcclSum nccl_sum_of(const Reducer& reducer, bool is_in_tree) {
  const bool adds = reducer.reduction == all_reduce::Reduction::sum || reducer.is_mean();
  NcclSum sum{reducer.is_mean() ? all_reduce::Reduction::sum : reducer.reduction,
              element_of(reducer.wire), is_in_tree && adds, element_of(reducer.compute), 0};
  if (reducer.is_mean() && reducer.divides == all_reduce::Divides::after)
    sum.divisor = round_to(reducer.compute, static_cast<double>(reducer.terms));
  return sum;
}

}  // namespace opbound
