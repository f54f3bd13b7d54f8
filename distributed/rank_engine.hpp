// One rank of a transport as an engine: opbound adds, the transport moves.
#pragma once

#include "distributed/engine.hpp"

namespace opbound {

class RankEngine : public Engine {
 public:
  std::int32_t ranks() const override { return communicator().size(); }
  std::int32_t first_rank() const override { return communicator().rank(); }
  std::int32_t local_ranks() const override { return 1; }

  void run(const Schedule& schedule, const Reducer& reducer, Buffers& buffers) override {
    if (first_rank() < schedule.ranks)
      run_collective(communicator(), schedule, reducer, buffers.front());
  }
  std::vector<std::byte> gather(std::span<const std::byte> own) override {
    return gather_all(communicator(), own);
  }

 protected:
  virtual Communicator& communicator() = 0;
  virtual const Communicator& communicator() const = 0;
};

}  // namespace opbound
