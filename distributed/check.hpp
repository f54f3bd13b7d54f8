// Checks of a collective that an engine runs: every rank's bits, the error against its bound, and
// what must not matter.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "distributed/collective_spec.hpp"
#include "distributed/nonfinite.hpp"

namespace opbound {

/// What is asked of a collective, and the part of the record that answers.
struct AskedCheck {
  std::string_view name, what;
  bool is_judged = true;  ///< may exceed; else it only tells
  bool tells = false;     ///< a skipped one has something to say too
};
inline constexpr std::array<AskedCheck, 10> asked_checks{{
    {"y", "the error against its bound; of a collective that adds nothing, its bits"},
    {"ranks", "all ranks have rank 0's bits"},
    {"again", "and so has another run, with other delays"},
    {"order", "the bits are those of the op's kernel that has the bound"},
    {"size", "an element has the bits that it has in a shorter message"},
    {"number of ranks", "half of them, or a quarter, ..., with the same micro-batches"},
    {"alignment", "and from another address"},
    {"mean", "dividing before or after changes no bit, for powers of two", true, true},
    {"streams", "nothing is read before it is written; soiled tensors are named"},
    {"nonfinite", "where the first NaN or infinity came from", false, true},
}};

/// Runs the collective on the case's inputs and gives, in the process of rank 0, a record for each
/// of these checks that the collective has and the engine can be asked. What an order does not
/// promise is skipped and told; nothing is skipped silently. Every process calls it, on the same
/// case. An engine's failure is a record that says who waits for whom.
std::vector<Record> check_collective(const CollectiveSpec& collective, Engine& engine);

}  // namespace opbound
