// A suite: what to run, as text. suites/README.md describes the file.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/op.hpp"
#include "ops/precision.hpp"

namespace opbound {

/// How a tensor lies in memory. transposed: its axes in reverse order; broadcast: one element or
/// row for the whole first axis, stride 0; unaligned: one element behind an aligned address.
enum class Layout : std::uint8_t { contiguous, transposed, broadcast, unaligned };
inline constexpr std::array<std::string_view, 4> layout_names{"contiguous", "transposed",
                                                              "broadcast", "unaligned"};

/// How one tensor is filled: a generator with its parameters, or a file.
struct InputSpec {
  std::string kind = "normal";
  std::vector<std::pair<std::string, double>> parameters;  ///< those given, generator's order
  std::string path;                                        ///< of kinds that read a file
  std::string tensor;                                      ///< name inside a .safetensors file
  Layout layout = Layout::contiguous;

  bool operator==(const InputSpec&) const = default;
};

/// "normal(sigma=5)", "file(x.npy)", "normal @transposed": how a record names it; parse_input reads
/// it.
std::string to_string(const InputSpec& spec);

enum class Tier : std::uint8_t { quick, full, nightly };

/// One check: every choice made.
struct CaseSpec {
  const Op* op = nullptr;
  Direction direction = Direction::forward;
  AttributeBytes attributes{};
  int variant = 0;               ///< the algorithm that runs
  std::vector<int> declared{0};  ///< the algorithm whose bound judges it; several: one of them
  Precision precision;
  Sizes sizes{};
  /// By name: every tensor that the direction reads and no pass writes, in the op's order.
  std::vector<std::pair<std::string, InputSpec>> inputs;
  std::uint64_t seed = 1;
  Tier tier = Tier::quick;
  std::string allowed_vacuous;  ///< why a vacuous bound is no finding here; empty: it is one
  std::string suite;            ///< file name, for records
  std::string name;             ///< of the case in its suite; free text
};

/// The word of TensorSpec::element that holds for a tensor, its own or the one it follows.
std::string_view stored_as(const Op& op, const TensorSpec& tensor);

/// What a tensor of the case is stored in.
Element tensor_element(const CaseSpec& spec, const TensorSpec& tensor);

/// The tensor's axes as the case sizes them; one empty axis where the attributes leave it out.
Shape tensor_shape(const CaseSpec& spec, const TensorSpec& tensor);

/// The size of a dimension, by name.
std::int64_t size_of(const CaseSpec& spec, std::string_view dim);

struct Suite {
  std::string path;
  const Op* op = nullptr;
  std::vector<CaseSpec> cases;  ///< in the file's order, lists multiplied out
};

/// Reads a suite. Throws InputError with file and line for an unknown key, a wrong type, an
/// impossible shape, format, variant or generator. Files are found relative to the suite.
Suite read_suite(const std::string& path);

}  // namespace opbound
