// Checks of a collective that an engine runs: every rank's bits, the error against its bound, and
// what must not matter.
#pragma once

#include <vector>

#include "distributed/nonfinite.hpp"
#include "reports/record.hpp"
#include "suites/suite.hpp"

namespace opbound {

struct CollectiveSpec {
  CaseSpec spec;  ///< of all_reduce: sizes {ranks, n}, x the ranks' elements, attributes
  Collective collective = Collective::all_reduce;
  int order = all_reduce::ring;        ///< the engine's, where it keeps one
  std::vector<TensorRange> tensors{};  ///< of the message; none: it is one tensor, x
};

/// How a case's elements become one.
Reducer reducer_of(const CaseSpec& spec);
Schedule schedule_of(const CollectiveSpec& collective);

/// Runs the collective on the case's inputs and gives, in the process of rank 0, a record for
///   y                    the error against its bound; of a collective that adds nothing, its bits
///   ranks                all ranks have rank 0's bits
///   again                and so has another run, with other delays
///   order                the bits are those of the op's kernel that has the bound
///   size                 an element has the bits that it has in a shorter message
///   alignment            and from another address
///   number of ranks      half of them, or a quarter, ..., with the same micro-batches
///   mean                 dividing before or after changes no bit, for powers of two
///   streams              nothing is read before it is written; soiled tensors are named
///   nonfinite            where the first NaN or infinity came from
/// What an order does not promise is skipped and told; nothing is skipped silently. Every process
/// calls it, on the same case. An engine's failure is a record that says who waits for whom.
std::vector<Record> check_collective(const CollectiveSpec& collective, Engine& engine);

}  // namespace opbound
