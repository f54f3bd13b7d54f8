// The state that a run carries from step to step: the same bits at a step's beginning as at the end
// of the last one, what the update's calls wrote at its end, and weights that are the master
// weights, rounded.
#pragma once

#include <optional>
#include <vector>

#include "distributed/trace/links.hpp"

namespace opbound::trace {

class StateWatch {
 public:
  StateWatch(const train::RunView& run, Links& links, Links::Report report)
      : run_(run), links_(links), report_(std::move(report)) {}

  /// Of an audited step: compares with what `keep` saw, and tells `links` what weights to expect.
  void begin_step();
  /// The update is done: compares with what its calls wrote.
  void compare();
  /// Keeps hashes of the state for the next step's beginning.
  void keep();
  void forget() { kept_.reset(); }

 private:
  struct Hashes {
    std::uint64_t master, m, v;
  };

  std::vector<std::byte> bytes_of_array(const std::byte* array) const;
  Hashes hashes(const std::vector<std::byte>& master) const;
  void expect_weights(const std::vector<std::byte>& master);
  void report(const char* tensor, std::string text);

  const train::RunView& run_;
  Links& links_;
  Links::Report report_;
  std::optional<Hashes> kept_;
};

}  // namespace opbound::trace
