// The forward pass of a model, as calls on a tape.
#pragma once

#include "distributed/train/model.hpp"
#include "distributed/train/tape.hpp"

namespace opbound::train {

struct ForwardRefs {
  std::vector<Ref> weights, gradients;  ///< in the order of parameters_of
  Ref tokens, targets;                  ///< int64 [sequences * context]
  Ref positions;                        ///< int64: place in its sequence of each row that asks
  Ref logits;                           ///< [sequences * context, vocabulary]
  Ref loss;                             ///< [1]: the mean over the micro-batch's tokens
};

/// The format in which a parameter is kept for the calls that read it: what its op stores, or what
/// it puts out where that are 8 bits.
Format weight_format(const Policy& policy, const ParameterSpec& p);

/// One micro-batch of `sequences` sequences.
ForwardRefs record_forward(const ModelSpec& m, Tape& tape, std::int64_t sequences);

}  // namespace opbound::train
