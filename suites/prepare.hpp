// The tensors of a case, before anything has run.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ops/op.hpp"
#include "suites/suite.hpp"

namespace opbound {

using Tensors = std::map<std::string, Tensor, std::less<>>;

/// The tensors of one case by name, and the call that binds them.
struct Prepared {
  Tensors tensors;
  std::vector<Tensor> arranged;  ///< bytes of tensors in another layout than the row-major one
  Call call;
};

/// Makes the inputs that are not given; for backward_local the saved tensors are what the own
/// kernel saves, unless they are given or among the case's inputs. Outputs hold NaN.
Prepared prepare(const CaseSpec& spec, Tensors given = {});

}  // namespace opbound
