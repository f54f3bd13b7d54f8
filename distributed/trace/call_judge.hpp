// One call of a run judged like a case of a suite, on the tensors that it had.
//
//   matmul           every row by random signs (product_check.hpp), a few elements by their bounds
//   other ops        a seeded sample of blocks, cut out as a smaller case (cut.hpp)
//   what is one number, such as a norm: whole
//   dropout, stochastic rounding: an element's place decides its random bits, so no block can be
//                    cut out. Own kernels run again and have to give the same bits; one call in
//                    `whole_one_in` is judged whole, and each of somebody else's
//
// Bounds are those of the provider's contract, as everywhere.
#pragma once

#include <cstdint>
#include <vector>

#include "distributed/trace/cut.hpp"
#include "distributed/trace/finding.hpp"
#include "distributed/train/observer.hpp"
#include "ops/provider.hpp"
#include "reports/record.hpp"

namespace opbound::trace {

/// How much of a call is judged.
struct Share {
  bool certified = false;       ///< everything, element by element
  std::int64_t blocks = 4;      ///< of a family whose blocks are rows, columns, heads' queries
  std::int64_t elements = 256;  ///< of an elementwise one
  std::int64_t product_elements = 16;  ///< of each output of a matmul, beside the random signs
  std::int64_t whole_one_in = 4;
};

/// A call as it was: on host memory, with the outputs that it gave.
struct PastCall {
  train::CallPlace place;
  const train::Step* step = nullptr;
  Call call;
  const Provider* provider = nullptr;
  std::int64_t rank = 0;
  std::uint64_t seed = 1;  ///< what is sampled hangs on it
};

/// What judging a call gave.
struct CallResult {
  std::vector<Record> records;  ///< one of each output, and of each product's rows
  std::vector<Finding> findings;
  std::uint64_t elements = 0;  ///< that were judged by their bounds
};

CallResult judge_call(const PastCall& past, const Share& share);

}  // namespace opbound::trace
