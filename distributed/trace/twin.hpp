// A twin of a run: the same but for another draw of its rounding, to see how far rounding alone
// carries two runs apart.
#pragma once

#include "distributed/train/observer.hpp"

namespace opbound::trace {

/// Before the first step each weight is moved by a random amount of at most half an ulp of the
/// format in which its op reads it, so that from there on every rounding is drawn again. A weight
/// that is kept in no finer format has no such neighbour: it is moved by an ulp or not at all.
class Twin final : public train::Observer {
 public:
  explicit Twin(std::uint64_t seed) : seed_(seed) {}
  void begin(const train::RunView& run) override;

 private:
  std::uint64_t seed_;
};

}  // namespace opbound::trace
