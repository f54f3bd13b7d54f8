// A check from its specification to its records.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ops/provider.hpp"
#include "reference/certify.hpp"
#include "reports/record.hpp"
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

/// The bounds of any kernel that keeps the contract; with several variants, of any of them: the
/// largest.
BoundArrays bounds_of(const Op& op, const Call& call, const Contract& contract);

/// read_suite → prepare → provider.run → bound → certify → record. One record per output tensor.
std::vector<Record> run_case(const CaseSpec& spec, const Provider& provider);

/// Judges the outputs that `prepared` holds; what `run_case` does after the provider has run.
std::vector<Record> judge_case(const CaseSpec& spec, const Provider& provider, Prepared& prepared,
                               const Contract& contract);

/// What all records of a case have in common: everything but what was found.
Record record_of(const CaseSpec& spec, const Provider& provider);

/// Bytes of a tensor with every NaN canonical, hashed (64-bit FNV-1a of Fowler, Noll and Vo):
/// "fnv1a:0123456789abcdef".
std::string hash_of(const Tensor& tensor);

}  // namespace opbound
