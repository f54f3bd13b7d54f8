// One rank of a transport as an engine: opbound adds, the transport moves.
#pragma once

#include <memory>

#include "distributed/engine.hpp"

namespace opbound {

class RankEngine : public Engine {
 public:
  RankEngine(std::unique_ptr<Communicator> communicator, EngineTraits traits)
      : Engine(std::move(traits), {communicator->size(), communicator->rank(), 1}),
        communicator_(std::move(communicator)) {}

  std::string timing() override;
  std::vector<std::byte> gather(std::span<const std::byte> own) override {
    return gather_all(*communicator_, own);
  }

 protected:
  Communicator& communicator() { return *communicator_; }

 private:
  void run_under(const Circumstances& circumstances, const Schedule& schedule,
                 const Reducer& reducer, Buffers& buffers) final;
  /// What is timed.
  virtual void run_here(const Circumstances& circumstances, const Schedule& schedule,
                        const Reducer& reducer, std::vector<double>& own);

  std::unique_ptr<Communicator> communicator_;
  double last_ms_ = 0;
};

}  // namespace opbound
