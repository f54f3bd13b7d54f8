// A training run in a process of its own: this program again, with another environment.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace opbound::claims {

using Environment = std::vector<std::pair<std::string, std::string>>;

/// Runs `words` of a command line of the program at `program` with these variables set; gives what
/// it wrote to standard output. Throws ProviderFailure where it cannot be started or does not end
/// with exit code 0.
std::string output_of(const std::string& program, const std::vector<std::string>& words,
                      const Environment& environment);

/// The hash that ends a training run of this variation (training_lab.hpp) in another process.
/// Throws Unavailable where this process is not the program `opbound`, and as output_of.
std::string training_hash(const std::string& variation, std::int64_t steps,
                          const std::string& device, const Environment& environment);

/// What the child of training_hash does: trains and gives the hash.
std::string hash_of_training(const std::string& variation, std::int64_t steps,
                             const std::string& device);

}  // namespace opbound::claims
