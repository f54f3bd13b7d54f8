// Sweeps: every bit pattern of an elementwise op's operands, judged.
#pragma once

#include <vector>

#include "ops/provider.hpp"
#include "reference/sweep_device.hpp"
#include "reports/record.hpp"
#include "suites/suite.hpp"

namespace opbound {

/// What these cases check, each op, direction, precision and variant once, with the first
/// attributes that the cases have or with `all_attributes`; as far as outputs can be swept:
/// elementwise, computed in fp32, all stored in at most 32 bits.
std::vector<CaseSpec> sweeps_of(const std::vector<CaseSpec>& cases, bool all_attributes = false);

/// How many elements a sweep of this case takes: all patterns of one operand, or all pairs of two
/// of 16 bits; each `every`-th of them. Further operands are drawn.
std::int64_t sweep_size(const CaseSpec& spec, std::uint64_t every);

/// Sweeps elementwise outputs where the provider computes; one record each. Of our own kernels fp64
/// decides nearly all elements, double-double and MPFR the rest; the worst element is decided anew
/// by them. Somebody else's (`spec.declared` says what they are) are judged as sweep_foreign says.
std::vector<Record> run_sweep(const CaseSpec& spec, const Provider& provider, std::uint64_t every,
                              const SweepProgress& progress);

}  // namespace opbound
