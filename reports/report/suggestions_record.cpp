// Changes of a check that fails: another algorithm, another contract, a wider format. Each is run.
#include <algorithm>
#include <cmath>

#include "ops/precision.hpp"
#include "ops/provider.hpp"
#include "reports/report/record_list.hpp"
#include "reports/report/suggestions.hpp"
#include "reports/standing.hpp"
#include "suites/rerun.hpp"
#include "suites/run.hpp"

namespace opbound::report {
namespace {

struct CheckChange {
  std::string text;  ///< lines of the suite's case
  CaseSpec spec;
  bool keeps_kernel = false;  ///< only what it is judged by is another
};

std::string in_quotes(std::string_view word) { return "\"" + std::string(word) + "\""; }

/// The next wider format that kernels compute in: what helps where an algorithm is at its limit.
std::optional<Format> wider(const Format& compute) {
  if (compute == bf16 || compute == fp16) return fp32;
  if (compute == fp32) return fp64;
  return std::nullopt;
}

/// What can be changed of a check, the kernel's contract first: it may only be declared wrongly.
std::vector<CheckChange> changes_of(const CaseSpec& spec) {
  const Op& op = *spec.op;
  std::vector<CheckChange> changes;
  const auto name = [&](int v) { return in_quotes(op.variants[static_cast<std::size_t>(v)].name); };
  if (spec.declared != std::vector<int>{spec.variant}) {
    CheckChange& c =
        changes.emplace_back(CheckChange{"declare = " + name(spec.variant), spec, true});
    c.spec.declared = {spec.variant};
  }
  for (int v = 0; v < std::ssize(op.variants); ++v) {
    if (v == spec.variant || !op.allows(spec.attributes, v) || !op.fits(spec.precision, v))
      continue;
    CheckChange& c = changes.emplace_back(CheckChange{"variant = " + name(v), spec});
    c.spec.variant = v;
    c.spec.declared = {v};
  }
  const std::optional<Format> compute = wider(spec.precision.compute);
  Precision precision = spec.precision;
  if (compute) precision.compute = *compute;
  if (!compute || !op.fits(precision, spec.variant)) return changes;
  // The contract stays: what a wider format cannot cure is told from what another bound allows.
  CheckChange& c =
      changes.emplace_back(CheckChange{"precision = " + in_quotes(name_of(precision)), spec});
  c.spec.precision = precision;
  return changes;
}

/// Runs the check so, and tells what became of its error, in ulp of the output's format: bounds of
/// two algorithms are no common measure. Of the same kernel the ratio is.
void try_one(const Record& before, const CheckChange& change, std::vector<Tried>& to) {
  Tried tried;
  tried.change = change.text;
  tried.of = RecordList::name_of(before);
  tried.indicator = change.keeps_kernel ? "largest error over its bound" : "largest error, ulp";
  const auto number = [&](const Record& r) {
    return (change.keeps_kernel ? r.ratio : r.error_ulp_max).value_or(std::nan(""));
  };
  tried.before = number(before);
  try {
    const auto provider = own_host_provider();
    const std::vector<Record> after = run_case(change.spec, *provider, Agreement::none);
    const auto same = std::ranges::find_if(
        after, [&](const Record& r) { return r.part == before.part && r.kind == before.kind; });
    if (same == after.end()) return;
    tried.after = number(*same);
    tried.verdict = name_of(same->verdict);
    tried.is_mended = !makes_run_fail(*same);
  } catch (const std::exception& e) {  // an input that is a file, more memory than there is
    tried.failure = e.what();
  }
  to.push_back(tried);
}

/// Can it be made again here, from the record alone?
bool is_of_a_suite(const Record& r) {
  return r.kind == CheckKind::bound && !r.in_situ && !r.ranks && makes_run_fail(r) &&
         r.inputs.input.find("every pattern") == std::string::npos;
}

}  // namespace

void try_record_changes(const Inputs& inputs, const TryOptions& options, std::vector<Tried>& to) {
  const RecordList list(inputs, false);
  int rows = 0;
  for (const auto& [op, all] : list.ops())
    for (const RecordRow& row : all) {
      if (!is_of_a_suite(*row.worst) || rows == options.most) continue;
      ++rows;
      if (options.on_note) options.on_note("trying " + RecordList::name_of(*row.worst));
      try {
        for (const CheckChange& change : changes_of(spec_of(*row.worst)))
          try_one(*row.worst, change, to);
      } catch (const std::exception& e) {  // a record of another program's op or algorithm
        Tried& tried = to.emplace_back();
        tried.change = "any";
        tried.of = RecordList::name_of(*row.worst);
        tried.indicator = "largest error, ulp";
        tried.failure = e.what();
      }
    }
}

}  // namespace opbound::report
