// Sweeps: an elementwise op over every pattern of its operands, each element a problem of its own.
#pragma once

#include <cstdint>

#include "bounds/judged.hpp"
#include "ops/describe.hpp"
#include "ops/op.hpp"
#include "ops/precision.hpp"

namespace opbound {

/// How the value of one input follows from an element's index.
struct Operand {
  enum class Values : std::uint8_t {
    patterns,  ///< every bit pattern: the bits of index from `shift` on
    drawn,     ///< positive, log-uniform in [2^-8, 2^8), by a hash of the index
    absent     ///< takes no part
  };
  Values values = Values::absent;
  Format format = fp32;
  int shift = 0;
  std::uint64_t seed = 0;

  OPBOUND_HD double at(std::uint64_t index) const {
    if (values == Values::patterns)
      return decode(format, (index >> shift) & (~std::uint64_t{0} >> (64 - format.bits())));
    if (values == Values::absent) return 0;
    const std::uint64_t h = element_hash(static_cast<std::int64_t>(index), seed);
    const double significand =
        1 + static_cast<double>(h >> 12) * 0x1p-52;  // log-uniform by octaves
    return round_to(format, significand * power_of_two(static_cast<int>(h & 15) - 8));
  }
};

/// By an fp64 reference errors are told to this much, ulp: a sixteenth of a histogram's finest
/// entry.
inline constexpr double fp64_doubt_ulp = 0x1p-5;

/// A sweep's runs of elements are longer than a tensor's: lanes merge less often what each has
/// seen.
inline constexpr std::int64_t sweep_run_length = 1 << 15;

/// What a sweep computes: a pass of an op on elements each of which is a problem of its own, all
/// dimensions 1.
struct Sweep {
  Direction direction = Direction::forward;
  AttributeBytes attributes{};
  int variant = 0;
  Format compute = fp32;
  // by place in the pass's tensor list
  Operand operand[max_tensors]{};
  Element element[max_tensors]{};  ///< what the tensor is stored in
  std::uint64_t every = 1;         ///< only each so-manieth index is taken, from 0 on

  /// How an output's elements are judged.
  Judge judge_of(int output) const {
    const Format stored = format_of(element[output]);
    return {{stored, store_rounds(compute, stored)}, false, fp64_doubt_ulp};
  }

  OPBOUND_HD std::uint64_t index_of(std::int64_t k) const {
    return static_cast<std::uint64_t>(k) * every;
  }
};

}  // namespace opbound
