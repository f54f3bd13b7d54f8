// One case of a collective, and what records say of it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "distributed/engine.hpp"
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

/// A record of this case by this engine, to be filled in. Its op is all_reduce, which has the
/// bound; `schedule` says which collective of it (no word: all of it) and in which order, "ring" or
/// "reduce_scatter ring"; of a library, which keeps none, "" or "reduce_scatter".
Record described(const CollectiveSpec& collective, Engine& engine, std::string part);

/// What `schedule` says.
Collective collective_of(const Record& record);
std::string_view order_of(const Record& record);

/// The key of the message's tensors in a record's environment, as --tensor takes each of them.
inline constexpr std::string_view tensors_key = "tensors";

}  // namespace opbound
