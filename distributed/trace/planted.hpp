// Faults that are planted in a training run, to see what finds them, how soon, and whether the
// place that is named is the right one. They change what the run computes through observer.hpp and
// nothing else, from one step on.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "distributed/train/observer.hpp"

namespace opbound::trace {

/// One planted fault: what it does, and by which words its place is rightly named.
struct PlantedFault {
  std::string_view name;
  std::string_view what;    ///< in a line
  std::string_view policy;  ///< that the fault is planted in
  /// A named place is right if it has one of these words: a parameter, "layer 1 ... matmul", a
  /// check that can have no other cause. Separated by '|'.
  std::string_view place;
  double dropout = 0;       ///< that the run needs
  bool recomputes = false;  ///< with checkpointing of all
  double norm_eps = 1e-5;   ///< of the model
  std::unique_ptr<train::Observer> (*make)(std::int64_t first_step);

  /// A text names the fault's place rightly.
  bool is_named_by(std::string_view text) const;
};

/// All of them, each under its own name.
std::span<const PlantedFault> planted_faults();

/// Throws InputError for a name that is none.
const PlantedFault& planted_fault(std::string_view name);

/// Throws InputError for a run in which a fault would strike nothing: all need two layers, layer
/// norms, two heads and two micro-batches.
void require_plantable(const train::TrainingSpec& spec);

}  // namespace opbound::trace
