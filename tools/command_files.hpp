// Files that a user names for a case's tensors: which is which, what sizes they tell, and whether
// they hold what the op takes. Throws InputError where not, naming option, tensor and file.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "suites/suite.hpp"

namespace opbound {

/// Tensors by name, each with its file, in the op's order.
using Files = std::vector<std::pair<std::string, InputSpec>>;

/// What a direction reads from outside: the saved tensors too where it does not make them itself.
std::vector<const TensorSpec*> read_tensors(const CaseSpec& spec);
/// What it writes and is judged.
std::vector<const TensorSpec*> written_tensors(const CaseSpec& spec);

/// The file of every tensor from "x.npy", "x.safetensors:name" or "y=y.npy"; a path alone goes to
/// the first tensor that has none.
Files assign(const std::string& option, const std::vector<std::string>& texts, const CaseSpec& spec,
             const std::vector<const TensorSpec*>& tensors);

/// Looks into all files and completes the case: its sizes, from the files' shapes and from words
/// like "pairs=4", and its inputs, where a mask is left out.
void take_files(CaseSpec& spec, const Files& results, const std::vector<std::string>& size_words);

}  // namespace opbound
