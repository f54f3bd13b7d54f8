// What a training run is: one TOML file, suites/training/<name>.toml, and the flags that change it.
// suites/training/README.md describes the file.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "distributed/train/model.hpp"
#include "distributed/train/policy.hpp"

namespace opbound::train {

enum class Sharding : std::uint8_t { dp, fsdp, zero3_fp32, zero3_offload };
inline constexpr std::array<std::string_view, 4> sharding_names{"dp", "fsdp", "zero3-fp32",
                                                                "zero3-offload"};

/// Does it leave each rank a part of the parameters?
constexpr bool is_sharded(Sharding s) { return s != Sharding::dp; }

/// lr(step): linear over `warmup_steps`, then a cosine down to `final_share` of it at the last
/// step.
struct Schedule {
  double lr = 1e-3;
  std::int64_t warmup_steps = 0;
  double final_share = 1;  ///< 1: constant
};

struct Optimizer {
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0.1;
  double clip_norm = 1;  ///< 0: not clipped
  bool clip_error_on_nonfinite = true;
};

struct TrainingSpec {
  std::filesystem::path file;
  ModelSpec model;
  Policy policy;
  Sharding sharding = Sharding::dp;
  Format gather = fp32;  ///< of fsdp: parameters between ranks

  std::string data = "auto";  ///< a text file; auto: the project's own text
  std::uint64_t seed = 1;
  std::int64_t steps = 100;
  std::int64_t micro_batches = 8;  ///< of a step, over all ranks
  std::int64_t sequences = 2;      ///< of a micro-batch
  Schedule schedule;
  Optimizer optimizer;

  std::int64_t checkpoint_every = 0;        ///< steps; 0: at the end and when interrupted
  std::filesystem::path checkpoint_folder;  ///< empty: none is written
};

/// Files that it names are found relative to it. Throws InputError with file, key and what was
/// expected.
TrainingSpec read_training(const std::filesystem::path& file);

/// Throws InputError, saying `where`, unless model and policy are valid and go together.
void require_valid(const TrainingSpec& spec, const std::string& where);

/// The learning rate of a step, counted from 0; the same bits on every machine.
double learning_rate(const Schedule& s, std::int64_t step, std::int64_t steps);

}  // namespace opbound::train
