// Publicly reported errors, made again: the faulty kernel, to be found by the bound of the right
// one, and the values that the report says are right. cases.toml says what was reported.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "tests/faulty_kernel.hpp"

namespace opbound {

/// How one input is filled: by a generator, or with these values, again and again.
struct CaseInput {
  std::string_view tensor;
  std::string_view generator{};
  std::vector<double> values{};
};

/// The first values of an output as they were published, in decimals: half a unit of the last digit
/// is what they are known to. "=x": exactly x. "": not known.
struct PublishedValues {
  std::string_view tensor;
  std::vector<std::string_view> values;
};

struct PublicCase {
  std::string_view id;    ///< in cases.toml
  std::string_view what;  ///< the line that is wrong, or what the values are of
  std::string_view op;
  Direction direction = Direction::forward;
  std::string_view precision = "fp32";
  std::vector<std::int64_t> shape;
  std::vector<CaseInput> inputs{};
  Attributes attributes{};
  std::vector<PublishedValues> published{};
  FaultyKernel kernel{};       ///< where there is one
  std::string_view variant{};  ///< the default one if empty
};

/// All of them; the list of files is generated.
std::vector<PublicCase> public_cases();

namespace cases {

using namespace faulty;

inline PublicCase shown(std::string_view id, std::string_view what, std::string_view op,
                        Direction direction, std::string_view precision,
                        std::vector<std::int64_t> shape, std::vector<CaseInput> inputs = {},
                        Attributes attributes = {}, std::vector<PublishedValues> published = {},
                        FaultyKernel kernel = {}, std::string_view variant = {}) {
  return {id,
          what,
          op,
          direction,
          precision,
          std::move(shape),
          std::move(inputs),
          std::move(attributes),
          std::move(published),
          std::move(kernel),
          variant};
}

}  // namespace cases
}  // namespace opbound
