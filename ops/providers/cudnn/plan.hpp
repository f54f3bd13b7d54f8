// A graph of cuDNN's frontend between the tensors of a call.
#pragma once

#include <cudnn_frontend.h>

#include <memory>
#include <string>
#include <vector>

#include "ops/providers/cudnn/call.hpp"

namespace opbound::with_cudnn {

using Tensor = std::shared_ptr<cudnn_frontend::graph::Tensor_attributes>;

/// Sizes and strides, in elements.
struct Layout {
  std::vector<std::int64_t> size, stride;
};

/// Graphs compute in fp32, and hold in fp32 what no format is said of.
class Plan {
 public:
  Plan();

  cudnn_frontend::graph::Graph& graph() { return graph_; }
  Tensor input(const Call& call, const char* name, const Layout& layout);
  /// A number that the graph contains.
  Tensor constant(double value);
  void output(const Tensor& t, const Call& call, const char* name, const Layout& layout);
  /// An output that the call does not have, of the format of its tensor `like`.
  void discard(const Tensor& t, const Call& call, const char* like, const Layout& layout);

  void build(cudnnHandle_t handle);
  std::size_t workspace() const { return workspace_; }
  void execute(const Call& call, cudnnHandle_t handle) const;

 private:
  struct Bound {
    std::int64_t uid;
    std::string name;
  };
  struct Discarded {
    std::int64_t uid;
    std::size_t bytes, offset;  ///< in the workspace
  };
  std::int64_t describe(const Tensor& t, int element, const Layout& layout);

  cudnn_frontend::graph::Graph graph_;
  std::int64_t last_uid_ = 0;
  std::vector<Bound> bound_;
  std::vector<Discarded> discarded_;
  std::size_t workspace_ = 0;
};

}  // namespace opbound::with_cudnn
