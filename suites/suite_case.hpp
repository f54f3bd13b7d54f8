// One [[case]] of a suite: what each key allows, and how the choices are multiplied out.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "suites/suite.hpp"
#include "suites/suite_toml.hpp"

namespace opbound::detail {

/// What a suite says once for all of its cases.
struct SuiteContext {
  const Op* op;
  std::string folder;  ///< where its files are looked for
  std::string file;    ///< for records
  std::vector<std::uint64_t> seeds;
};

/// A tensor of 2^28 elements takes some 20 GiB to judge.
inline constexpr std::int64_t most_elements = std::int64_t{1} << 28;

/// Checks of a suite, and choices on the way to them: lists that multiply would else take all
/// memory before the product is looked at.
inline constexpr int most_checks = 100000;
[[noreturn]] void refuse_so_many(const TomlValue& value);

/// How a tensor is to be filled, and where the suite says so.
struct GivenInput {
  std::string tensor;
  InputSpec spec;
  TomlValue place;
};
using GivenInputs = std::vector<GivenInput>;

/// Names of the tensors that a direction reads and no pass writes, in the op's order.
std::vector<std::string_view> input_tensors(const Op& op, Direction direction);

/// Every combination that an `input` key allows; `known` are the tensors it may name.
std::vector<GivenInputs> read_inputs(const TomlValue& value,
                                     std::span<const std::string_view> known,
                                     const std::string& folder);

/// Variants by their place in the op's list, and the key that names them.
struct NamedVariants {
  std::vector<int> places;
  TomlValue key;
};

/// What one [[case]] allows: a list for every key, and what its checks have in common.
struct CaseChoices {
  CaseSpec common;
  std::vector<Direction> directions;
  std::vector<Precision> precisions;
  std::vector<AttributeBytes> attributes;
  std::optional<NamedVariants> variants, declared;
  std::vector<Sizes> shapes;
  std::optional<TomlValue> shape_key;
  std::vector<GivenInputs> inputs;
  std::vector<std::uint64_t> seeds;
};

std::vector<std::uint64_t> read_seeds(const TomlValue& value);
CaseChoices read_choices(const TomlValue& value, const SuiteContext& context);

/// The checks of one case, its lists multiplied out: direction, precision, attributes, variant,
/// shape, input, seed, the last one fastest.
std::vector<CaseSpec> read_case(const TomlValue& value, const SuiteContext& context);

}  // namespace opbound::detail
