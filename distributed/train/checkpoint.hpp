// The state of a training run on disk: never seen half written, and refused if it is not whole.
//
// A file is: 8 bytes "opbckpt" and a version, the length of what follows, the SHA-256 of all of it,
// and then a JSON header and the tensors' bytes. It is written beside its name, forced to disk and
// renamed; the older ones are removed only then. "step-000000000120.checkpoint" is the name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "ops/tensor.hpp"

namespace opbound::train {

/// What a checkpoint holds. Tensors by name: "wte.weight", "wte.weight.m", "wte.weight.v".
struct Checkpoint {
  std::int64_t step = 0;  ///< steps that are done
  std::map<std::string, Tensor> tensors;
  nlohmann::json metadata =
      nlohmann::json::object();  ///< of the trainer: seeds, loss scale, hashes
};

/// Checkpoints of one run in a folder of their own.
class CheckpointFolder {
 public:
  /// The folder is made with the first checkpoint. `keep`: how many of the newest stay, at least 1.
  explicit CheckpointFolder(std::filesystem::path folder, int keep = 2);

  /// When it returns, the checkpoint is on disk. Throws InputError if it cannot be written (disk
  /// full, read-only, no such place); then every older checkpoint is still there.
  std::filesystem::path write(const Checkpoint& checkpoint) const;

  /// The newest good one, or nothing where there is none. For every newer file that is torn,
  /// foreign or of another version, one line is added to `refused`: file, what, expected.
  std::optional<Checkpoint> newest(std::vector<std::string>& refused) const;

 private:
  std::filesystem::path folder_;
  int keep_;
};

/// Reads one file. Throws InputError, one line, if it is torn, foreign, changed or of another
/// version.
Checkpoint read_checkpoint(const std::filesystem::path& file);

}  // namespace opbound::train
