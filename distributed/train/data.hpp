// What a training run reads: the bytes of a text file as tokens, and which of them a micro-batch
// gets.
//
// A window is context + 1 consecutive bytes; its tokens are the first `context`, its targets the
// last. An epoch cuts the training part into windows one behind the other, beginning at an offset
// of its own, and goes through them in an order of its own: a keyed permutation, so that nothing is
// shuffled in memory and the place in the run is the step alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "ops/tensor.hpp"

namespace opbound::train {

/// Byte tokens are 0 to 255.
inline constexpr std::int64_t byte_vocabulary = 256;

/// The bytes of a file, mapped and not copied; the file must not be cut while it is in use.
class Text {
 public:
  /// Throws InputError unless the path names a regular file with bytes that may be read.
  explicit Text(const std::filesystem::path& file);
  ~Text();
  Text(const Text&) = delete;
  Text& operator=(const Text&) = delete;

  const std::string& name() const { return name_; }
  std::span<const std::uint8_t> bytes() const { return bytes_; }
  /// SHA-256 of the bytes, 64 hexadecimal digits.
  const std::string& sha256() const { return sha256_; }

 private:
  std::string name_;
  void* mapped_ = nullptr;
  std::span<const std::uint8_t> bytes_;
  std::string sha256_;
};

/// How a run cuts its text.
struct Sampling {
  std::int64_t context = 0;        ///< tokens of a sequence
  std::int64_t sequences = 0;      ///< of a micro-batch
  std::int64_t micro_batches = 0;  ///< of a step, over all ranks
  std::uint64_t seed = 0;
};

/// A pure function of (seed, step, micro-batch): neither the number of ranks nor what was asked
/// before changes it. No window comes twice in an epoch; a step may end one and begin the next. The
/// last tenth of the text, and at least one window of it, is for evaluation and never trained on.
class Sampler {
 public:
  /// Throws InputError for a text of fewer than 3 context + 1 bytes. The text must outlive it.
  Sampler(const Text& text, const Sampling& sampling);

  /// Fills two contiguous int64 tensors [sequences, context] with micro-batch `g` of step `step`,
  /// both from 0, g in the order of all ranks.
  void fill(std::int64_t step, std::int64_t g, const TensorView& tokens,
            const TensorView& targets) const;

  /// Windows of an epoch, and the epoch, from 0, of the first window of a step.
  std::int64_t windows() const { return windows_; }
  std::int64_t epoch(std::int64_t step) const;

  /// Micro-batches of the evaluation part. Windows that do not fill one are left out, unless there
  /// would be none: then the part's windows are repeated.
  std::int64_t evaluation_batches() const;
  void fill_evaluation(std::int64_t batch, const TensorView& tokens,
                       const TensorView& targets) const;

  /// SHA-256 of the text.
  std::string text_sha256() const;

  /// The byte at which window `place` of an epoch begins.
  std::int64_t window_at(std::int64_t epoch, std::int64_t place) const;

 private:
  std::int64_t evaluation_windows() const;
  void copy(std::int64_t row, std::int64_t at, const TensorView& tokens,
            const TensorView& targets) const;

  std::span<const std::uint8_t> bytes_;
  Sampling sampling_;
  std::int64_t training_bytes_ = 0;
  std::int64_t windows_ = 0;
};

}  // namespace opbound::train
