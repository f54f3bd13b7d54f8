#include "suites/run.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <new>

#include "generated/version.hpp"
#include "ops/out_of_memory.hpp"
#include "reference/certify_device.hpp"
#include "suites/agree.hpp"
#include "suites/reveal.hpp"
#include "suites/run_cases.hpp"

namespace opbound {
namespace {

Named<AttributeValue> attributes_of(const CaseSpec& spec) {
  Named<AttributeValue> values;
  for (const AttributeSpec& a : spec.op->attributes)
    values.emplace_back(a.name, a.get(spec.attributes));
  return values;
}

Case case_of(const CaseSpec& spec) {
  Case c;
  for (std::size_t d = 0; d < spec.op->dims.size(); ++d)
    c.shape.emplace_back(spec.op->dims[d], spec.sizes[d]);
  for (const auto& [tensor, input] : spec.inputs)
    c.input += (c.input.empty() ? "" : " ") + tensor + "=" + to_string(input);
  c.seed = spec.seed;
  return c;
}

std::string variant_names(const Op& op, const std::vector<int>& variants) {
  std::string text;
  for (const int v : variants)
    text.append(text.empty() ? "" : "|").append(op.variants[static_cast<std::size_t>(v)].name);
  return text;
}

/// The inputs that an element of output `place` depends on, where they are few: elements of the
/// same place. What the kernel saved for itself (backward_full) is none.
Named<double> inputs_at(const PassInfo& pass, const Call& call, std::size_t place,
                        std::int64_t index) {
  const auto views = call.judged();
  Named<double> inputs;
  for (std::size_t t = 0; t < views.size(); ++t) {
    const Role role = pass.tensors[t].role;
    const bool is_own = role == Role::saved && call.direction == Direction::backward_full;
    if (!pass.tensors[t].is_written() && !is_own && views[t].count() == views[place].count())
      inputs.emplace_back(pass.tensors[t].name, views[t].at(index));
  }
  return inputs;
}

}  // namespace

std::string contract_text(const Op& op, const Contract& contract) {
  std::string text = variant_names(op, contract.variants);
  switch (contract.order) {
    case Contract::Order::own:
      return text + ", own order and functions";
    case Contract::Order::any:
      text += ", any order";
      break;
    case Contract::Order::tree:
      text += ", revealed tree";
  }
  const auto& ulp = contract.functions.ulp;
  return text + (ulp == FunctionErrors{}.ulp || ulp == exact_function_errors.ulp
                     ? ", functions correctly rounded"
                 : ulp == cuda_function_errors.ulp ? ", functions as CUDA documents"
                                                   : ", functions as declared");
}

std::string bound_source(const Contract& contract, std::uint64_t by_theorem) {
  std::string text = contract.order == Contract::Order::own ? "running" : "running, any order";
  if (contract.order == Contract::Order::tree) text = "running, revealed tree";
  if (contract.variants.size() > 1) text += ", union of variants";
  if (by_theorem > 0) text += "; a theorem for " + std::to_string(by_theorem);
  return text;
}

Record record_of(const CaseSpec& spec, const Provider& provider) {
  Record r;
  r.op = spec.op->name;
  r.direction = name_of(spec.direction);
  r.variant = variant_names(*spec.op,
                            provider.is_foreign() ? spec.declared : std::vector<int>{spec.variant});
  r.precision = name_of(spec.precision);
  r.attributes = attributes_of(spec);
  r.provider = provider.name();
  r.provider_version = provider.version();
  r.device = provider.device();
  r.environment = provider.environment();
  r.inputs = case_of(spec);
  r.suite = spec.suite;
  r.commit = commit;
  return r;
}

Record record_of(const CaseSpec& spec, const Provider& provider, const OutputCheck& c) {
  Record r = record_of(spec, provider);
  r.part = spec.op->pass(spec.direction).tensors[static_cast<std::size_t>(c.tensor)].name;
  fill_in(r, c);
  if (r.verdict == Verdict::vacuous) r.allowed_vacuous = spec.allowed_vacuous;
  return r;
}

void fill_in(Record& r, const OutputCheck& c) {
  r.output_hash = hash_text(c.hash);
  r.verdict = verdict_of(c.counts);
  r.counts = c.counts;
  r.blocks = c.blocks;
  r.rungs = c.rungs;
  r.nonfinite_mismatch = c.nonfinite_mismatch;
  if (c.counts.checked == 0) return;
  r.ratio = c.ratio;
  r.acceptable_mean = c.acceptable_mean;
  r.acceptable_max = c.acceptable_max;
  r.error_ulp_max = c.error_ulp_max;
  r.error_ulp_mean = c.error_ulp_mean;
  r.bias_ulp = c.bias_ulp;
  r.bias_z = c.bias_z;
  r.ulp_histogram = c.histogram;
  r.worst = c.worst;
}

namespace {
/// Are both numbers, or the same infinity, or NaN?
bool are_alike(double a, double b) {
  return (std::isfinite(a) && std::isfinite(b)) || a == b || (std::isnan(a) && std::isnan(b));
}
}  // namespace

BoundArrays bounds_of(const Op& op, const Call& call, const Contract& contract) {
  BoundArrays largest = op.bound(call, contract, contract.variants.front());
  for (std::size_t v = 1; v < contract.variants.size(); ++v) {
    const BoundArrays other = op.bound(call, contract, contract.variants[v]);
    for (std::size_t t = 0; t < largest.size(); ++t)
      for (std::size_t i = 0; i < largest[t].radius.size(); ++i)
        largest[t].radius[i] = are_alike(largest[t].value[i], other[t].value[i])
                                   ? std::max(largest[t].radius[i], other[t].radius[i])
                                   : std::numeric_limits<double>::infinity();
  }
  return largest;
}

std::string hash_of(const Tensor& tensor) {
  std::uint64_t hash = 0;
  const Element e = tensor.element();
  for (std::int64_t i = 0, n = tensor.count(); i < n; ++i)
    hash += element_hash(i, is_float(e) ? encode(format_of(e), tensor.at(i))
                                        : static_cast<std::uint64_t>(tensor.index_at(i)));
  return hash_text(hash);
}

namespace {

/// One record for each check.
std::vector<Record> records_of(const CaseSpec& spec, const Provider& provider,
                               const Prepared& prepared, const Contract& contract,
                               const std::vector<OutputCheck>& checks) {
  const PassInfo& pass = spec.op->pass(spec.direction);
  std::vector<Record> records;
  for (const OutputCheck& c : checks) {
    const auto place = static_cast<std::size_t>(c.tensor);
    Record r = record_of(spec, provider, c);
    r.contract = contract_text(*spec.op, contract);
    if (is_float(prepared.call.judged()[place].element)) {
      r.bound_source =
          c.is_of_every_order ? "a theorem for every order" : bound_source(contract, c.by_theorem);
    } else {
      r.kind = CheckKind::exact;
      r.bound_source = "exact";
    }
    if (r.worst)
      r.worst->input =
          inputs_at(pass, prepared.call, place, static_cast<std::int64_t>(r.worst->index));
    records.push_back(std::move(r));
  }
  return records;
}

std::string no_kernel_text(const CaseSpec& spec, const Provider& provider) {
  if (const std::string why = provider.absence(); !why.empty()) return why;
  return provider.name() + " lists no kernel for " + std::string(spec.op->name) + " " +
         std::string(name_of(spec.direction)) + " by " + variant_names(*spec.op, {spec.variant});
}

/// A quick check's rows, counted as elements are.
Record quick_record(const CaseSpec& spec, const Provider& provider, const QuickCheck& quick) {
  Record r = record_of(spec, provider);
  r.kind = CheckKind::statistical;
  r.part = "rows";
  r.bound_source = "sums with " + std::to_string(quick_check_vectors) +
                   " vectors of random signs, for every order; misses 1 in " +
                   std::to_string(1 << quick_check_vectors);
  r.counts.checked = static_cast<std::uint64_t>(quick.rows);
  r.counts.exceeds = static_cast<std::uint64_t>(quick.failing);
  r.counts.within = r.counts.checked - r.counts.exceeds;
  r.verdict = quick.failing > 0 ? Verdict::exceeds : Verdict::within;
  return r;
}

/// Runs and judges on the provider's device; the host's bits are asked for where the kernel is
/// ours.
std::vector<Record> run_on_device(const CaseSpec& spec, const Provider& provider,
                                  Prepared& prepared, Agreement agreement) {
  const Contract contract = provider.contract(*spec.op, spec.declared);
  const bool is_own = contract.order == Contract::Order::own;
  // the device bounds the variant that runs; what else is declared is bounded here
  const bool is_bounded_there = is_own && contract.variants == std::vector{spec.variant};
  const BoundArrays bounds =
      is_bounded_there ? BoundArrays{} : bounds_of(*spec.op, prepared.call, contract);
  const std::vector<OutputCheck> checks =
      certify_on_device(provider, *spec.op, prepared.call, bounds);
  std::vector<Record> records = records_of(spec, provider, prepared, contract, checks);
  if (!checks.empty() && checks.front().is_of_every_order)  // large enough for a quick check too
    if (const auto quick = quick_check_on(provider, *spec.op, prepared.call, spec.seed))
      records.push_back(quick_record(spec, provider, *quick));
  if (!is_own || agreement == Agreement::none) return records;
  for (Record& r : agree_case(spec, provider, prepared, checks, agreement))
    records.push_back(std::move(r));
  return records;
}

}  // namespace

std::vector<Record> judge_case(const CaseSpec& spec, const Provider& provider, Prepared& prepared,
                               const Contract& contract) {
  const BoundArrays bounds = bounds_of(*spec.op, prepared.call, contract);
  return records_of(spec, provider, prepared, contract, certify(*spec.op, prepared.call, bounds));
}

namespace {
std::vector<Record> without_result(const CaseSpec& spec, const Provider& provider, Verdict verdict,
                                   std::string why) {
  Record r = record_of(spec, provider);
  r.verdict = verdict;
  r.reason = std::move(why);
  return {std::move(r)};
}
}  // namespace

namespace {

std::vector<Record> run_where_memory_is(const CaseSpec& spec, const Provider& provider,
                                        Agreement agreement, std::int64_t most_probes) {
  const auto start = std::chrono::steady_clock::now();
  if (provider.variants(*spec.op, spec.direction, spec.attributes, spec.variant).empty())
    return without_result(spec, provider, Verdict::skipped, no_kernel_text(spec, provider));
  Prepared prepared = prepare(spec);
  std::vector<Record> records;
  try {
    if (provider.is_on_device()) {
      records = run_on_device(spec, provider, prepared, agreement);
    } else {
      provider.run(*spec.op, prepared.call);
      const Contract contract = most_probes > 0 ? revealed_contract(spec, provider, most_probes)
                                                : provider.contract(*spec.op, spec.declared);
      records = judge_case(spec, provider, prepared, contract);
    }
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Unavailable& e) {
    return without_result(spec, provider, Verdict::skipped, e.what());
  } catch (const ProviderFailure& e) {
    return without_result(spec, provider, Verdict::failed, e.what());
  }
  const std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - start;
  for (Record& r : records) r.time_ms = elapsed.count();
  return records;
}

}  // namespace

std::vector<Record> run_case_or_throw(const CaseSpec& spec, const Provider& provider,
                                      Agreement agreement, std::int64_t most_probes) {
  try {
    return run_where_memory_is(spec, provider, agreement, most_probes);
  } catch (const std::bad_alloc&) {
    throw OutOfMemory("out of memory on the host");
  }
}

std::vector<Record> run_case(const CaseSpec& spec, const Provider& provider, Agreement agreement,
                             std::int64_t most_probes) {
  try {
    return run_case_or_throw(spec, provider, agreement, most_probes);
  } catch (const OutOfMemory& e) {
    return without_result(spec, provider, Verdict::failed, e.what());
  }
}

}  // namespace opbound
