// A training run for a reader, made from its log's records.
#pragma once

#include <string>

#include "distributed/train/log.hpp"

namespace opbound::train {

/// What was run, where, about ten of its steps, and how it ended; ends with a newline. A run that
/// is resumed is told as one. Tokens a second are those of the median step of the last part; its
/// first step, which warms up, is left out where there are others.
std::string training_report(const LoggedRun& run);

/// Is it a training run's log, by its first line? False for what cannot be read.
bool is_training_log(const std::string& path);

/// "loss 2.31, gradient norm 0.82, scale 65536, 12300 tokens/s": a step in the line of progress.
std::string progress_text(const StepResult& step);

}  // namespace opbound::train
