// What a provider throws where its device's memory does not suffice: alone there, it may.
#pragma once

#include "ops/provider.hpp"

namespace opbound {

struct OutOfMemory : ProviderFailure {
  using ProviderFailure::ProviderFailure;
};

}  // namespace opbound
