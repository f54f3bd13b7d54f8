#include "tests/detection/planted.hpp"

#include <memory>

#include "distributed/runs.hpp"
#include "suites/run.hpp"
#include "tests/detection/public_case_run.hpp"
#include "tests/faults/fault.hpp"
#include "tests/faulty_provider.hpp"
#include "tests/planted_collectives.hpp"

namespace opbound::detection {
namespace {

Observation run_kernel(const CaseSpec& spec, Prepared prepared, const Kernel& kernel) {
  if (!kernel) return observe(spec, *own_host_provider(), std::move(prepared));
  return observe(spec, FaultyProvider(spec.name, kernel), std::move(prepared));
}

const Kernel& chosen(const FaultyKernel& kernel, bool is_planted) {
  return is_planted ? kernel.run : kernel.control;
}

/// What every rank has, as an output of its own for the rules of others.
void take_ranks(Observation& seen, const Buffers& results) {
  Tensor& y = seen.prepared.tensors.find("y")->second;
  const RivalOutput first = seen.outputs.at(0);
  seen.outputs.clear();
  for (const std::vector<double>& of_rank : results) {
    RivalOutput& out = seen.outputs.emplace_back(first);
    for (std::size_t i = 0; i < of_rank.size(); ++i) {
      y.set(static_cast<std::int64_t>(i), of_rank[i]);
      out.got[i] = y.at(static_cast<std::int64_t>(i));
    }
  }
}

/// The checks of a collective decide; the rules of others see every rank's results. Ranks may
/// remember, so each run has ranks of its own.
Observation run_collective(const planted::Fault& fault, bool is_planted) {
  const CollectiveSpec collective = fault.spec();
  Observation seen;
  seen.spec = collective.spec;
  seen.spec.name = fault.name;
  seen.prepared = prepare(seen.spec);
  seen.spec.op->run(seen.prepared.call);
  judge_outputs(seen, own_host_provider()->contract(*seen.spec.op, seen.spec.declared));
  const Tensor& x = seen.prepared.tensors.find("x")->second;
  const auto ranks = fault.engine(is_planted);
  take_ranks(seen, CollectiveRuns(collective, *ranks, x).whole());
  seen.verdict = Verdict::within;
  seen.found_by.clear();
  seen.ratio = 0;
  for (const Record& r : check_collective(collective, *fault.engine(is_planted))) {
    if (r.verdict == Verdict::skipped) continue;
    seen.verdict = worse(seen.verdict, r.verdict);
    if (r.verdict == Verdict::exceeds && seen.found_by.empty()) seen.found_by = r.part;
    if (r.part == "y") seen.ratio = r.ratio.value_or(0);
  }
  return seen;
}

std::string shape_of(const CaseSpec& spec) {
  std::string text;
  for (std::size_t d = 0; d < spec.op->dims.size(); ++d)
    text += (text.empty() ? "" : "x") + std::to_string(spec.sizes[d]);
  return text;
}

RuleResult result_of(const Rival& rival, const Observation& faulty, const Observation& right) {
  const WholeAnswer of_faulty = answer_of(rival, faulty), of_right = answer_of(rival, right);
  RuleResult r;
  r.rule = rival.name;
  r.why_not = of_faulty.why_not;
  r.flagged = of_faulty.flagged;
  r.control_flagged = of_right.flagged;
  if (of_faulty.applies())
    r.detection = of_faulty.accepts  ? Detection::missed
                  : of_right.accepts ? Detection::caught
                                     : Detection::both;
  return r;
}

}  // namespace

std::vector<Planted> planted_in_ops() {
  std::vector<Planted> all;
  for (const Fault& f : all_faults())
    all.push_back(
        {"op", std::string(f.op), std::string(f.name), std::string(f.what), [f](bool is_planted) {
           const CaseSpec spec = case_of(f);
           return run_kernel(spec, prepare(spec), chosen(f.kernel, is_planted));
         }});
  return all;
}

std::vector<Planted> planted_in_collectives() {
  std::vector<Planted> all;
  for (const planted::Fault& f : planted::all_faults())
    all.push_back({"collective", "all_reduce", std::string(f.name), std::string(f.what),
                   [f](bool is_planted) { return run_collective(f, is_planted); }});
  return all;
}

std::vector<Planted> planted_in_cases() {
  std::vector<Planted> all;
  for (const PublicCase& c : public_cases()) {
    if (!c.kernel.run) continue;  // only the published values are shown
    all.push_back(
        {"case", std::string(c.op), std::string(c.id), std::string(c.what), [c](bool is_planted) {
           const CaseSpec spec = spec_of(c);
           return run_kernel(spec, prepared_for(c, spec), chosen(c.kernel, is_planted));
         }});
  }
  return all;
}

std::vector<Planted> all_planted() {
  std::vector<Planted> all = planted_in_ops();
  for (auto list : {planted_in_collectives(), planted_in_cases()})
    for (Planted& p : list) all.push_back(std::move(p));
  return all;
}

WholeAnswer answer_of(const Rival& rival, const Observation& seen) {
  WholeAnswer all;
  all.why_not = "no output";
  for (const RivalOutput& out : seen.outputs) {
    const RivalAnswer own = rival.judge(seen.rival_case(), out);
    if (!own.applies()) {
      if (!all.applies()) all.why_not = own.why_not;
      continue;
    }
    all.why_not = {};
    all.accepts = all.accepts && own.accepts;
    all.flagged += own.flagged;
    all.elements += out.got.size();
  }
  return all;
}

PowerRow row_of(const Planted& planted) {
  const Observation faulty = planted.run(true), right = planted.run(false);
  PowerRow row;
  row.family = planted.family;
  row.op = planted.op;
  row.name = planted.name;
  row.what = planted.what;
  row.direction = name_of(faulty.spec.direction);
  row.precision = name_of(faulty.spec.precision);
  row.shape = shape_of(faulty.spec);
  for (const RivalOutput& out : faulty.outputs) row.elements += out.got.size();
  row.verdict = faulty.verdict;
  row.control = right.verdict;
  row.found_by = faulty.found_by;
  row.ratio = faulty.ratio;
  row.detection = faulty.verdict != Verdict::exceeds ? Detection::missed
                  : right.verdict == Verdict::within ? Detection::caught
                                                     : Detection::both;
  for (const Rival& rival : rivals()) row.rules.push_back(result_of(rival, faulty, right));
  return row;
}

}  // namespace opbound::detection
