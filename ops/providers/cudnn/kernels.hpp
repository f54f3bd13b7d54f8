// The kernels of cuDNN that opbound has an op for, and which algorithm each of them is.
#pragma once

#include <vector>

#include "ops/providers/cudnn/call.hpp"

namespace opbound::with_cudnn {

class Plan;

struct Kernel {
  const char* op;
  const char* direction;  ///< "forward", "backward", or null: both
  const char* variants;   ///< as in opbound_algorithm
  bool takes_fp64;
  void (*describe)(const Call& call, Plan& plan);  ///< its graph; null: it has none
  void (*run)(const Call& call);                   ///< without a graph
};

/// cuDNN's sources are closed. In each of these files the comments say what shows the algorithm:
/// cuDNN's documentation, the graphs of its frontend, and the kernels of cuDNN's that NVIDIA
/// publishes with it.
using Kernels = std::vector<Kernel>;
void add_softmax(Kernels& kernels);
void add_normalization(Kernels& kernels);
void add_activations(Kernels& kernels);
void add_attention(Kernels& kernels);

/// Is the attention's backward pass asked to give the same bits in each run? The environment's
/// OPBOUND_CUDNN_DETERMINISTIC=on, read when the plug-in is opened.
bool is_deterministic();

/// The bytes of scratch memory that the kernel's graph needs, and the graph run: graphs are built
/// once for each signature.
std::size_t workspace_of(const Call& call, const Kernel& kernel);
void execute(const Call& call, const Kernel& kernel);

}  // namespace opbound::with_cudnn
