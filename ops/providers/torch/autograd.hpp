// Gradients as autograd makes them.
#pragma once

#include <torch/csrc/autograd/autograd.h>

#include <vector>

#include "ops/providers/torch/call.hpp"

namespace opbound::with_torch {

/// An input whose gradient is asked for; undefined where the call has no such tensor.
inline at::Tensor leaf(const Call& c, const char* name) {
  at::Tensor t = c.tensor(name);
  if (t.defined()) t.requires_grad_(true);
  return t;
}

/// The gradients of `y`, given its upstream gradient, with respect to the leaves.
inline std::vector<at::Tensor> gradients(const at::Tensor& y, const at::Tensor& dy,
                                         const std::vector<at::Tensor>& leaves) {
  return torch::autograd::grad({y}, leaves, {dy});
}

}  // namespace opbound::with_torch
