// The kernels of torch that opbound has an op for, and which algorithm each of them is.
#pragma once

#include <torch/version.h>

#include <vector>

#include "ops/providers/torch/call.hpp"

namespace opbound::with_torch {

/// What tensors of 16 bits are computed in: fp32, rounded at the end; or several kernels of torch
/// one after the other, each of which stores its result in 16 bits, so that the format itself is
/// the one that opbound's bound has to assume.
enum class Narrow : std::uint8_t { in_fp32, as_stored };

/// In 1.13 the CPU's kernels round every operation on 16 bits to 16 bits: a vector of bf16 is
/// widened and stored again in each of its operators (ATen/cpu/vec).
#if TORCH_VERSION_MAJOR < 2 && !defined(OPBOUND_TORCH_CUDA)
inline constexpr Narrow in_fp32_since_2 = Narrow::as_stored;
#else
inline constexpr Narrow in_fp32_since_2 = Narrow::in_fp32;
#endif

struct Kernel {
  const char* op;
  const char* direction;  ///< "forward", "backward", or null: both
  const char* variants;   ///< as in opbound_algorithm
  Narrow narrow;
  void (*run)(const Call& call);
};

/// In each of these files the comments say where torch's sources show the algorithm.
using Kernels = std::vector<Kernel>;
void add_activations(Kernels& kernels);
void add_rows(Kernels& kernels);
void add_normalization(Kernels& kernels);
void add_products(Kernels& kernels);
void add_attention(Kernels& kernels);
void add_streams(Kernels& kernels);
void add_gradients(Kernels& kernels);
void add_adamw(Kernels& kernels);

/// Is the plug-in for CUDA?
inline constexpr bool is_on_cuda =
#ifdef OPBOUND_TORCH_CUDA
    true;
#else
    false;
#endif

/// Which implementation of AdamW runs: the environment's OPBOUND_TORCH_ADAMW, "single" if there is
/// none.
const char* adamw_implementation();

}  // namespace opbound::with_torch
