// A check from its specification to its records.
#pragma once

#include <string>
#include <vector>

#include "ops/provider.hpp"
#include "reference/certify.hpp"
#include "reports/record.hpp"
#include "suites/prepare.hpp"
#include "suites/suite.hpp"

namespace opbound {

/// The bounds of any kernel that keeps the contract; with several variants, of any of them: the
/// largest.
BoundArrays bounds_of(const Op& op, const Call& call, const Contract& contract);

/// What a kernel promises, and what its bounds follow from, as records say it.
std::string contract_text(const Op& op, const Contract& contract);
std::string bound_source(const Contract& contract, std::uint64_t by_theorem);

/// What is asked of our own kernels on a device beside their bounds: the host's bits.
enum class Agreement : std::uint8_t {
  none,
  outputs,  ///< of the outputs
  all       ///< and of bounds, references and every statistic: the whole check runs on the host too
};

/// read_suite → prepare → provider.run → bound → certify → record. One record per output tensor; on
/// a device everything after prepare happens there, and records of agreement follow.
/// With `most_probes` above 0 the order in which somebody else's kernel adds is looked for on the
/// host, with so many runs of it at most, and bounds are for that order.
std::vector<Record> run_case(const CaseSpec& spec, const Provider& provider,
                             Agreement agreement = Agreement::outputs,
                             std::int64_t most_probes = 0);

/// Judges the outputs that `prepared` holds; what `run_case` does after the provider has run.
std::vector<Record> judge_case(const CaseSpec& spec, const Provider& provider, Prepared& prepared,
                               const Contract& contract);

/// What all records of a case have in common: everything but what was found.
Record record_of(const CaseSpec& spec, const Provider& provider);

/// The same, with what was found of one output.
Record record_of(const CaseSpec& spec, const Provider& provider, const OutputCheck& check);

/// What was found of one output: verdict, counts, statistics, worst element, hash.
void fill_in(Record& record, const OutputCheck& check);

/// The elements' hashes, NaN canonical, added: "sum64:0123456789abcdef".
std::string hash_of(const Tensor& tensor);

}  // namespace opbound
