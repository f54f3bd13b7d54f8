// What a user may choose of cuBLAS, by environment variables, and every record holds.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace opbound::with_cublas {

/// The candidates of the heuristic that can be asked for: 0 to 4.
inline constexpr int most_candidates = 5;

struct Settings {
  /// OPBOUND_CUBLAS_TF32=on: fp32 is cut to tf32 for matrix units.
  bool tf32 = false;
  /// OPBOUND_CUBLAS_REDUCED=on: where K is split, parts may be added in the output's format.
  bool reduced = false;
  /// OPBOUND_CUBLAS_FAST=on: sums of fp8 products stay in the matrix units' few digits to the end.
  bool fast = false;
  /// OPBOUND_CUBLAS_WORKSPACE_BYTES: what an algorithm may use; 32 MiB, as NVIDIA recommends for
  /// Hopper.
  std::uint64_t workspace_bytes = std::uint64_t{32} << 20;
  /// OPBOUND_CUBLAS_CANDIDATE: which of the algorithms that the heuristic gives, the fastest first.
  int candidate = 0;

  /// Name and value for every record.
  std::vector<std::pair<std::string, std::string>> entries() const;
};

/// What the environment says; std::invalid_argument with one line for a value that is none.
Settings read_settings();

}  // namespace opbound::with_cublas
