// Inputs: each element a pure function of (seed, stream, index) through Philox, + - * / sqrt and
// this project's elementary functions, so that every machine makes the same ones; then rounded to
// the tensor's format, so exact. suites/README.md lists the generators.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "ops/tensor.hpp"
#include "suites/suite.hpp"

namespace opbound {

/// What a generator fills.
enum class Domain : std::uint8_t { numbers, indices, booleans };

/// What a generator takes, for messages and for `opbound list --inputs`.
struct GeneratorInfo {
  std::string_view kind;
  std::string_view parameters;  ///< with their defaults: "mean=0 sigma=1"; a file's: "path"
  std::string_view meaning;
  Domain domain = Domain::numbers;
};
std::span<const GeneratorInfo> all_generators();

/// Reads what to_string writes: "normal", "normal(sigma=5)", "file(x.npy)", "file(x.safetensors,
/// tensor=h)". Throws InputError for anything else.
InputSpec parse_input(std::string_view text);

/// Puts the parameters into the generator's order. Throws InputError for an unknown kind or
/// parameter, a missing path, or one that the kind does not take.
void normalize(InputSpec& spec);

/// The kind that fills a tensor of which a suite says nothing: normal, index or mask.
std::string_view default_kind(Element element);

/// Throws InputError where fill_input would for any shape: a parameter out of its range, a format
/// that the kind cannot serve, a file that is not there.
void check_input(const InputSpec& spec, Element element);

/// Fills a tensor. `stream` keeps tensors of one case apart: use the tensor's name. A generated
/// value beyond the format's largest becomes infinite (NaN in e4m3). `below` is the size that
/// bounds an index tensor. Throws InputError as check_input, or for a file that does not fit the
/// shape.
void fill_input(Tensor& tensor, const InputSpec& spec, std::uint64_t seed, std::string_view stream,
                std::int64_t below = 0);

}  // namespace opbound
