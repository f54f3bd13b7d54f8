#include "tests/detection/observe.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/certify.hpp"
#include "suites/run.hpp"

namespace opbound::detection {
namespace {

/// The exact value as a double: what is beyond all of them is infinite.
double as_double(const Exact& e) {
  if (e.kind != Exact::Class::beyond_double) return e.high;
  return std::copysign(std::numeric_limits<double>::infinity(), e.high);
}

RivalOutput output_of(const TensorSpec& tensor, const TensorView& view) {
  RivalOutput out;
  out.tensor = tensor.name;
  out.element = view.element;
  out.columns = view.rank == 0 ? 1 : view.size[view.rank - 1];
  return out;
}

void take(RivalOutput& out, const FirstRung& judged, ElementCounts& counts, double& ratio,
          Verdict& verdict) {
  Tally tally;
  for (std::size_t i = 0; i < judged.elements.size(); ++i) {
    const JudgedElement& e = judged.elements[i];
    tally.take(judged.judge.of(e, true), static_cast<std::int64_t>(i), judged.judge.most_doubt_ulp);
    out.got.push_back(e.got);
    out.exact.push_back(as_double(e.exact));
    out.expected.push_back(is_float(out.element) ? rounded_once(judged.judge.store.format, e.exact)
                                                 : e.exact.high);
  }
  const ElementCounts own{tally.within, tally.exceeds, tally.undecided, tally.vacuous,
                          tally.checked()};
  counts.within += own.within;
  counts.exceeds += own.exceeds;
  counts.undecided += own.undecided;
  counts.vacuous += own.vacuous;
  counts.checked += own.checked;
  ratio = std::max(ratio, tally.worst_ratio);
  verdict = verdict_of(own);
}

}  // namespace

double rounded_once(const Format& format, const Exact& exact) {
  if (exact.kind == Exact::Class::nan) return exact.high;
  const double wide = as_double(exact);
  const int rest = exact.low > 0 ? 1 : exact.low < 0 ? -1 : 0;
  const double s = std::isinf(wide) || format.kind == Kind::fp64
                       ? wide
                       : rounding::stored(format, rounding::Reach{exact.high, rest});
  if (!std::isinf(s)) return s;
  if (format.overflow == Overflow::saturate) return std::copysign(format.largest(), s);
  return format.has_infinity() ? s : std::numeric_limits<double>::quiet_NaN();
}

void judge_outputs(Observation& seen, const Contract& contract) {
  const Op& op = *seen.spec.op;
  const Call& call = seen.prepared.call;
  const auto tensors = op.pass(call.direction).tensors;
  seen.outputs.clear();
  seen.counts = {};
  for (const FirstRung& judged : judged_elements(op, call, bounds_of(op, call, contract))) {
    const auto t = static_cast<std::size_t>(judged.tensor);
    RivalOutput& out = seen.outputs.emplace_back(output_of(tensors[t], call.judged()[t]));
    Verdict verdict = Verdict::within;
    take(out, judged, seen.counts, seen.ratio, verdict);
    if (verdict == Verdict::exceeds && seen.found_by.empty()) seen.found_by = out.tensor;
    seen.verdict = worse(seen.verdict, verdict);
  }
}

Observation observe(CaseSpec spec, const Provider& provider, Prepared prepared) {
  Observation seen;
  seen.spec = std::move(spec);
  seen.prepared = std::move(prepared);
  provider.run(*seen.spec.op, seen.prepared.call);
  judge_outputs(seen, provider.contract(*seen.spec.op, seen.spec.declared));
  return seen;
}

}  // namespace opbound::detection
