// Prompts for the evaluation of a model: suites/prompts/*.toml.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace opbound::train {

/// Tokens of one sequence.
using Tokens = std::vector<std::int64_t>;

struct Prompt {
  std::string name;
  Tokens tokens;  ///< bytes, at least one
};

/// A list `prompts` of tables: `name`; `text` or `bytes`, a list of numbers from 0 to 255; and
/// `repeat`, how often they stand one behind the other. Throws InputError with file and line.
std::vector<Prompt> read_prompts(const std::filesystem::path& file);

/// The project's own: suites/prompts/corner_cases.toml. Throws InputError where it is not found.
std::vector<Prompt> corner_case_prompts();

}  // namespace opbound::train
