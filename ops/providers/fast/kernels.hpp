// This project's kernels for speed: fp32 arithmetic by CUDA's own functions, numbers 16 bytes at a
// time, a row once from memory. Each is a variant of its op in another order of summation, which
// the suites judge by that variant's bound. Same inputs, same bits: nothing is added atomically.
#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <vector>

#include "ops/providers/plugin_side.hpp"

namespace opbound::fast {

using plugin_side::Call;
using plugin_side::require;
using plugin_side::Unsupported;

struct Kernel {
  const char* op;
  const char* direction;  ///< null: both
  const char* variants;
  void (*run)(const Call&);  ///< Unsupported for a call that it does not take
  std::size_t (*workspace)(const Call&) = nullptr;
};

using Kernels = std::vector<Kernel>;

void add_elementwise(Kernels& kernels);
void add_updates(Kernels& kernels);
void add_layer_norm(Kernels& kernels);
void add_cross_entropy(Kernels& kernels);
void add_embedding(Kernels& kernels);

}  // namespace opbound::fast
