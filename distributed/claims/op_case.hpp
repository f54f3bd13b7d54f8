// One call of an op by this project's kernel on the host, for experiments: its inputs by name, its
// outputs, and their certified values.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reports/record.hpp"
#include "suites/prepare.hpp"
#include "suites/suite.hpp"

namespace opbound::claims {

/// What is to be called. A word that the op does not know is InputError.
struct OpChoice {
  std::string op;
  Direction direction = Direction::forward;
  std::string precision = "fp32";
  Named<std::int64_t> sizes;
  Named<AttributeValue> attributes{};
  std::string variant{};  ///< empty: the first that the attributes allow
};

class OpCase {
 public:
  explicit OpCase(const OpChoice& choice);

  /// An input's values in row-major order, each rounded to what it is stored in.
  void give(std::string_view tensor, std::span<const double> values);
  void run();
  const Tensor& at(std::string_view tensor) const;
  /// The exact value of each element of an output at these inputs, to 53 bits: the definition in
  /// double-double. NaN where that does not decide.
  std::vector<double> exact(std::string_view tensor) const;
  /// What any kernel of this variant, in any order of summation, may be off by.
  std::vector<double> any_order_bound(std::string_view tensor) const;

 private:
  std::size_t place_of(std::string_view tensor) const;

  CaseSpec spec_;
  Tensors given_;
  Prepared prepared_;
};

/// Standard normal numbers of one stream of a seed.
std::vector<double> normal_numbers(std::int64_t count, std::uint64_t seed, std::string_view stream,
                                   double deviation = 1);

/// A format's name, as a parameter says it. Throws InputError.
Format format_of_name(const std::string& name);

}  // namespace opbound::claims
