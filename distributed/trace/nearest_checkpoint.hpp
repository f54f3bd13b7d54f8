// Going on from the last checkpoint before a step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "distributed/train/trainer.hpp"

namespace opbound::trace {

/// Resumes from the folder's newest good checkpoint of at most `steps` steps done. False where
/// there is none; each newer one that is not good is one line for `on_note`. Throws InputError for
/// a folder that cannot be read, and for a checkpoint of another run.
bool resume_before(train::Trainer& trainer, const std::filesystem::path& folder, std::int64_t steps,
                   const std::function<void(const std::string&)>& on_note);

}  // namespace opbound::trace
