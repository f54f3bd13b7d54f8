// Inputs: each element a pure function of (seed, tensor, index), rounded to the tensor's format, so
// exact.
#pragma once

#include <string_view>

#include "ops/tensor.hpp"
#include "suites/suite.hpp"

namespace opbound {

/// What a generator takes, for messages and for `opbound list --inputs`.
struct GeneratorInfo {
  std::string_view kind;
  std::string_view parameters;  ///< "mean=0 sigma=1"
  std::string_view meaning;
};
std::span<const GeneratorInfo> all_generators();

/// Fills a tensor. `stream` keeps tensors of one case apart: use the tensor's name.
/// Throws InputError for an unknown kind or parameter, or a file that does not fit the shape.
void fill_input(Tensor& tensor, const InputSpec& spec, std::uint64_t seed, std::string_view stream);

}  // namespace opbound
