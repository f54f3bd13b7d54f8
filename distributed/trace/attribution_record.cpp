#include "distributed/trace/attribution_record.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "distributed/train/log.hpp"
#include "generated/version.hpp"
#include "reports/record.hpp"

namespace opbound::trace {
namespace {

using Json = nlohmann::ordered_json;

/// A number, or the word for one that JSON has not.
Json number(double x) { return std::isfinite(x) ? Json(x) : Json(hexadecimal(x)); }

Json line_of(const std::string& kind, std::int64_t step, std::int64_t micro_batch) {
  return {
      {"schema", attribution_schema}, {"kind", kind}, {"step", step}, {"micro_batch", micro_batch}};
}

Json of_replay(const ReplayResult& r) {
  Json j = {{"loss", number(r.loss)},
            {"largest_gap", number(r.largest_gap)},
            {"rank_correlation", number(r.rank_correlation)}};
  if (r.gradient) {
    j["gradient"] = number(r.gradient->measured);
    j["gradient_predicted"] = number(r.gradient->predicted);
    j["gradient_unattributed"] = number(r.gradient->unattributed);
  }
  return j;
}

Json of_attribution(const train::TrainingSpec& spec, const AttributedRun& run,
                    const Attribution& a) {
  Json j = line_of("attribution", a.step, a.micro_batch);
  j["loss"] = number(a.loss);
  j["loss_hex"] = hexadecimal(a.loss);
  j["loss_exact"] = number(a.loss_exact);
  j["loss_exact_hex"] = hexadecimal(a.loss_exact);
  j["measured"] = number(a.measured());
  j["predicted"] = number(a.predicted);
  j["predicted_exact_adjoint"] = number(a.predicted_exact);
  j["unattributed"] = number(a.unattributed());
  j["root_of_squares"] = number(a.root_of_squares);
  if (a.replay) j["replay"] = of_replay(*a.replay);
  j["classes"] = a.classes.size();
  j["gradient_nonfinite"] = a.nonfinite;
  j["changed_inputs"] = a.changed;
  j["file"] = spec.file.string();
  j["commit"] = commit;
  j["device"] = run.facts.machine;
  j["data_sha256"] = run.facts.data_sha256;
  j["spec"] = train::json_of(spec);
  return j;
}

Json of_class(const Attribution& a, const ClassContribution& c) {
  Json j = line_of("attribution_class", a.step, a.micro_batch);
  j["part"] = c.where.part;
  j["op"] = c.where.op;
  j["layer"] = c.where.layer;
  j["pass"] = pass_names[static_cast<std::size_t>(c.where.pass)];
  j["precision"] = c.where.precision;
  j["calls"] = c.calls;
  j["loss"] = number(c.loss);
  j["loss_hex"] = hexadecimal(c.loss);
  j["loss_exact_adjoint"] = number(c.loss_exact);
  j["loss_expected"] = number(c.loss_expected);
  if (c.loss_replayed) j["loss_replayed"] = number(*c.loss_replayed);
  if (c.gradient) j["gradient"] = number(*c.gradient);
  if (c.gradient_share) j["gradient_share"] = number(*c.gradient_share);
  return j;
}

void add_deviation(Json& j, const ParameterDeviation& p) {
  j["name"] = p.name;
  j["layer"] = p.layer;
  j["norm"] = number(p.norm);
  j["measured"] = number(p.measured);
  j["predicted"] = number(p.predicted);
  j["unattributed"] = number(p.unattributed);
  j["root_of_squares"] = number(p.root_of_squares);
  j["largest"] = number(p.largest);
  j["within"] = p.is_within();
}

Json of_parameter(const Attribution& a, const ParameterDeviation& p) {
  Json j = line_of("attribution_parameter", a.step, a.micro_batch);
  add_deviation(j, p);
  return j;
}

Json of_step_gradient(const StepGradient& g, std::size_t p) {
  Json j = {{"schema", attribution_schema},
            {"kind", "attribution_gradient"},
            {"step", g.step},
            {"micro_batches", g.micro_batches}};
  add_deviation(j, g.deviation.parameters[p]);
  j["of_sum"] = number(g.of_sum[p]);
  return j;
}

Json of_swap(const SwapResult& s) {
  Json j = line_of("attribution_swap", s.step, s.micro_batch);
  j["part"] = s.swap.part;
  j["how"] = s.swap.how;
  j["loss"] = number(s.loss);
  j["change"] = number(s.change);
  j["gradient_change"] = number(s.gradient_change);
  j["adds_up"] = false;
  return j;
}

}  // namespace

std::vector<std::string> attribution_lines(const train::TrainingSpec& spec,
                                           const AttributedRun& run) {
  std::vector<std::string> lines;
  const auto add = [&](const Json& j) {
    lines.push_back(j.dump(-1, ' ', false, Json::error_handler_t::replace));
  };
  for (const Attribution& a : run.parts) {
    add(of_attribution(spec, run, a));
    for (const ClassContribution& c : a.classes) add(of_class(a, c));
    if (a.replay && a.replay->gradient)
      for (const ParameterDeviation& p : a.replay->gradient->parameters) add(of_parameter(a, p));
  }
  for (const StepGradient& g : run.gradients)
    for (std::size_t p = 0; p < g.of_sum.size(); ++p) add(of_step_gradient(g, p));
  for (const SwapResult& s : run.swaps) add(of_swap(s));
  return lines;
}

}  // namespace opbound::trace
