// opbound train: what looks on, as its options say.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "distributed/trace/tracer.hpp"
#include "distributed/train/trainer.hpp"

namespace opbound {

struct ObserveOptions {
  std::string trace;
  std::int64_t full_every = 100, twin = 0;
  std::vector<std::int64_t> bits_of;
};

void add_observe_options(CLI::App& command, ObserveOptions& options);

/// The observers that a run is to have; they live as long as this.
class Observers {
 public:
  Observers(const ObserveOptions& options, const train::TrainingSpec& spec,
            const std::string& device, bool resumes);
  /// Adds them to a run.
  void attach(train::TrainOptions& how) const;

 private:
  std::vector<std::unique_ptr<train::Observer>> all_;
};

}  // namespace opbound
