// Does what should not matter change a kernel's bits?
#pragma once

#include <cstdint>
#include <vector>

#include "ops/provider.hpp"
#include "suites/suite.hpp"

namespace opbound {

enum class Answer : std::uint8_t { yes, no, not_asked };

/// Has a kernel the same bits ... Not asked of what the kernel does not take.
struct SameBits {
  Answer again = Answer::not_asked;      ///< when it runs again on the same inputs
  Answer unaligned = Answer::not_asked;  ///< when inputs begin one element further on
  Answer alone = Answer::not_asked;      ///< for a row, when it is the only one of its batch
};

/// The bits of an output's elements, NaN canonical.
std::vector<std::uint64_t> bits_of(const TensorView& view);

/// The case prepared, run, and the bits of one output of the pass.
std::vector<std::uint64_t> output_bits(const CaseSpec& spec, std::size_t output,
                                       const Provider& provider);

/// Asks of one output on the case's inputs. `summed`: the dimension that is added along, in the
/// op's list; rows are those of the first other dimension that the output has and that is above 1.
/// Throws as the provider does.
SameBits ask_same_bits(const CaseSpec& spec, std::size_t output, int summed,
                       const Provider& provider);

}  // namespace opbound
