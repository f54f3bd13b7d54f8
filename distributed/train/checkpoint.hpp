// The state of a training run on disk: never seen half written, and refused unless it is whole.
//
// A checkpoint is a .safetensors file that any reader of that format opens. Its `__metadata__` has
// "opbound.checkpoint" (the version), "state" (step and metadata as JSON) and "sha256": of the
// whole file with zeros in these 64 places. It is written beside its name, forced to disk and
// renamed; older ones are removed only then. Names are "step-000000000120.safetensors".
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

inline constexpr int checkpoint_version = 1;

/// What a checkpoint holds. Names of tensors are the trainer's: "wte.weight", "m.wte.weight".
struct Checkpoint {
  std::int64_t step = 0;  ///< steps that are done
  std::map<std::string, Tensor> tensors;
  nlohmann::json metadata = nlohmann::json::object();  ///< the trainer's; numbers are finite
};

/// Reads one file. Throws InputError, one line, unless it is a checkpoint of this version, of which
/// every byte is as it was written.
Checkpoint read_checkpoint(const std::filesystem::path& file);

/// Does the file say that it is a checkpoint, of whatever version? Throws InputError for one that
/// is no .safetensors file.
bool is_checkpoint(const std::filesystem::path& file);

/// The checkpoints of one run, in a folder of their own.
class CheckpointFolder {
 public:
  /// `keep`: how many of the newest stay, at least 1. The folder is made by the first write.
  explicit CheckpointFolder(std::filesystem::path folder, int keep = 2);
  ~CheckpointFolder();
  CheckpointFolder(const CheckpointFolder&) = delete;
  CheckpointFolder& operator=(const CheckpointFolder&) = delete;

  /// Makes the folder, and keeps other runs from writing there while this object lives. The first
  /// write does it too. Throws InputError where another run does, or nobody can.
  void claim();

  /// When it returns, the checkpoint is on disk; then those of earlier steps beyond `keep` are
  /// removed. Gives the file. Throws InputError if it cannot be written (no room, read-only,
  /// another process writes here); then every older checkpoint is still there, and a later write
  /// may do.
  std::filesystem::path write(const Checkpoint& checkpoint);

  /// The newest good one, or nothing where there is none. Each newer file that is none adds one
  /// line to `refused`: file, what, expected. Throws InputError for a folder that cannot be read.
  std::optional<Checkpoint> newest(std::vector<std::string>& refused) const;

 private:
  std::filesystem::path folder_;
  int keep_;
  int lock_ = -1;  ///< descriptor of a file that one process at a time holds locked; -1: not yet
};

}  // namespace opbound::train
