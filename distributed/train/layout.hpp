// How a model's parameters lie in one flat array: by unit (what belongs to no layer, then the
// layers), in each of them first what decays. Gradients, moments and master weights lie alike.
//
// A unit's length is a multiple of `grain` elements, so that it can be cut into `chunks_of_a_unit`
// equal chunks: ranks own whole chunks, and the global norm is made of the chunks' norms whoever
// owns them. What lies between parameters is 0 and stays 0.
#pragma once

#include <cstdint>
#include <vector>

#include "distributed/train/model.hpp"

namespace opbound::train {

inline constexpr std::int64_t chunks_of_a_unit = 16;
inline constexpr std::int64_t grain = 64 * chunks_of_a_unit;

/// Elements [begin, end) of the flat array.
struct Range {
  std::int64_t begin = 0, end = 0;
  std::int64_t count() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

struct Unit {
  Range all;
  Range decaying;  ///< the first part of it
};

class Layout {
 public:
  explicit Layout(std::vector<ParameterSpec> parameters);

  const std::vector<ParameterSpec>& parameters() const { return parameters_; }
  /// By place of the parameter.
  const Range& parameter(std::size_t place) const { return places_[place]; }
  const std::vector<Unit>& units() const { return units_; }
  std::int64_t count() const { return count_; }

  /// What a rank of so many, a power of two, owns of a unit.
  Range owned(std::size_t unit, std::int64_t rank, std::int64_t ranks) const;

 private:
  std::vector<ParameterSpec> parameters_;
  std::vector<Range> places_;
  std::vector<Unit> units_;
  std::int64_t count_ = 0;
};

}  // namespace opbound::train
