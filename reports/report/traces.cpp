#include "reports/report/traces.hpp"

#include <algorithm>

#include "distributed/trace/sentinel.hpp"
#include "reports/error.hpp"

namespace opbound::report {
namespace {

using trace::StepDistance, trace::TraceFile, trace::TraceStep;

TracedStep told(const TraceStep& s, const std::vector<trace::TraceParameter>& parameters) {
  TracedStep t{s.step, s.loss, s.gradient_norm, s.is_skipped, 0, {}, {}};
  for (const trace::GradientSums& g : s.gradients) t.nonfinite += g.nonfinite;
  for (std::size_t p = 0; p < s.full.size() && p < parameters.size(); ++p) {
    if (t.lost_updates && s.full[p].lost_updates <= *t.lost_updates) continue;
    t.lost_updates = s.full[p].lost_updates;
    t.lost_in = parameters[p].name;
  }
  return t;
}

TraceRun read_run(TraceFile& file) {
  TraceRun run{file.path(), file.head(), file.parameters(), file.calls(), file.events(), {}};
  file.for_each_step([&](const TraceStep& s) {
    run.steps.push_back(told(s, run.parameters));
    return true;
  });
  if (run.steps.empty()) throw InputError(run.path, "no step", "the trace of a run");
  return run;
}

TracePair read_pair(TraceFile& a, TraceFile& b, const std::vector<std::string>& twins) {
  TracePair pair;
  if (!twins.empty()) pair.band.emplace(a, twins, trace::SentinelOptions{}.alpha);
  pair.must_agree = !pair.band && trace::must_agree_in_bits(a.head(), b.head());
  pair.differences = trace::differences(a.head(), b.head());
  trace::for_each_distance(a, b, [&](const StepDistance& d) {
    pair.distances.push_back(d);
    return true;
  });
  if (pair.distances.empty())
    throw InputError(b.path(), "no step that " + a.path() + " has", "such a one");
  for (const StepDistance& d : pair.distances) {
    if (pair.first_call) break;
    if (d.has_same_bits()) continue;
    pair.first_call = trace::first_differing_call(a, b, d.step);
  }
  if (pair.first_call) pair.cause = trace::cause_of(*pair.first_call, a.head(), b.head());
  return pair;
}

}  // namespace

Traces read_traces(const std::vector<std::string>& paths, const std::vector<std::string>& twins) {
  Traces traces;
  std::vector<std::unique_ptr<TraceFile>> files;
  for (const std::string& path : paths) {
    files.push_back(std::make_unique<TraceFile>(path, TraceFile::Open::read));
    traces.runs.push_back(read_run(*files.back()));
  }
  if (files.size() == 2) traces.pair = read_pair(*files[0], *files[1], twins);
  return traces;
}

}  // namespace opbound::report
