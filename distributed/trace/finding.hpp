// What a check of a running training found wrong: which one, where in the run, and by how much.
#pragma once

#include <cstdint>
#include <string>

namespace opbound::trace {

/// One broken check of a run. What does not apply is empty, or -1.
struct Finding {
  std::string check;      ///< "op", "producer", "recompute", "seed", "tokens", ...
  std::int64_t step = 0;  ///< from 0
  std::int64_t rank = 0;
  std::int64_t micro_batch = -1;  ///< in the order of all ranks; -1: of the step
  int layer = -1;                 ///< -1: of no layer
  std::int64_t call = -1;         ///< place in its tape
  std::string part;               ///< what the policy's rule is for: "matmul", "mlp:gelu"
  std::string op;                 ///< "matmul", "gelu"
  std::string direction;          ///< "forward", "backward_local"
  std::string parameter;          ///< the parameter that is concerned: "h.0.attn.c_attn.weight"
  std::string tensor;             ///< the op's tensor, or what it is: "d", "master"
  std::int64_t index = -1;        ///< the worst element, in that tensor, row-major
  double got = 0;                 ///< what was found there,
  double low = 0, high = 0;       ///< what lies in [low, high] exactly,
  double bound = 0;               ///< and how far a correct kernel's value may lie from it
  std::uint64_t wrong = 0;        ///< how many elements, rows or vectors are
  std::string text;               ///< one line for a reader: what, where, expected
};

}  // namespace opbound::trace
