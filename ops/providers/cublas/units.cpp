#include "ops/providers/cublas/units.hpp"

#include <cuda_runtime_api.h>

#include "ops/providers/plugin_side.hpp"

namespace opbound::with_cublas {

std::string units_here() {
  std::string all;
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) count = 0;  // opbound says why
  for (int device = 0; device < count; ++device) {
    int major = 0, minor = 0;
    if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) != cudaSuccess)
      continue;
    const int capability = 10 * major + minor;
    for (const Unit& u : units)
      if (u.first <= capability && capability <= u.last && !plugin_side::lists(all, u.variant))
        all += (all.empty() ? "" : "|") + std::string(u.variant);
  }
  return count == 0 ? "hopper" : all;
}

}  // namespace opbound::with_cublas
