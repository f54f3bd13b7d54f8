#include "reports/report/sections.hpp"

#include <algorithm>
#include <map>

#include "distributed/train/log.hpp"
#include "reports/page.hpp"
#include "reports/report/html.hpp"
#include "reports/report/plot.hpp"
#include "reports/text.hpp"

namespace opbound::report {
namespace {

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// A run's curves; `take` is given (step, loss, norm) of each step.
struct Curves {
  PlotCurve loss, norm;

  Curves(const std::string& name, std::size_t place)
      : loss{name, place == 0 ? "" : "b", {}}, norm{name, place == 0 ? "" : "b", {}} {}
  void take(std::int64_t step, double l, double n) {
    loss.points.emplace_back(static_cast<double>(step), l);
    norm.points.emplace_back(static_cast<double>(step), n);
  }
};

std::vector<Curves> curves_of(const Inputs& inputs, const Traces& traces) {
  std::vector<Curves> all;
  for (const LogFile& file : inputs.logs)
    for (const train::LoggedRun& run : file.runs) {
      if (all.size() == 2) break;  // a pair is told apart by two colours
      Curves& c = all.emplace_back(file_name(file.path), all.size());
      for (const train::StepResult& s : run.steps) c.take(s.step, s.loss, s.gradient_norm);
    }
  if (!all.empty()) return all;
  for (const TraceRun& run : traces.runs) {
    Curves& c = all.emplace_back(file_name(run.path), all.size());
    for (const TracedStep& s : run.steps) c.take(s.step, s.loss, s.gradient_norm);
  }
  return all;
}

std::string runs_table(const Inputs& inputs) {
  HtmlTable table("Runs, from their logs",
                  {"log", "model", "policy", "ranks", "device", "steps", "first loss", "last loss",
                   "skipped", "end", "hash of the weights"});
  const auto word = [](const train::RunRecord& r, const char* of) {
    return r.spec.contains(of) ? r.spec.at(of).value("name", std::string("none")) : "none";
  };
  for (const LogFile& file : inputs.logs)
    for (const train::LoggedRun& run : file.runs) {
      const train::RunRecord& r = run.parts.back();
      const auto skipped = std::ranges::count_if(run.steps, &train::StepResult::is_skipped);
      const std::string end =
          !run.result
              ? "killed, or still running"
              : std::string(train::run_end_names[static_cast<std::size_t>(run.result->end)]) +
                    (run.result->reason.empty() ? "" : ": " + run.result->reason);
      const bool has_hash = run.result && run.result->result;
      table.row({words(file.path), words(word(r, "model")), words(word(r, "policy")),
                 figure(std::to_string(r.ranks)), words(r.device),
                 figure(std::to_string(run.steps.size())),
                 figure(run.steps.empty() ? "none" : legible(run.steps.front().loss)),
                 figure(run.steps.empty() ? "none" : legible(run.steps.back().loss)),
                 figure(std::to_string(skipped)), words(end),
                 words(has_hash ? train::text_of_hash(run.result->result->hash) : "none")});
    }
  return table.is_empty() ? "" : table.html();
}

std::string traces_table(const Traces& traces) {
  HtmlTable table("Runs, from their traces",
                  {"trace", "written by", "device", "ranks", "parameters", "calls", "steps",
                   "first loss", "last loss", "alarms"});
  for (const TraceRun& run : traces.runs)
    table.row({words(run.path), words(run.head.source), words(run.head.device),
               figure(std::to_string(run.head.ranks)),
               figure(std::to_string(run.parameters.size())),
               figure(std::to_string(run.calls.size())), figure(std::to_string(run.steps.size())),
               figure(legible(run.steps.front().loss)), figure(legible(run.steps.back().loss)),
               figure(std::to_string(run.events.size()))});
  return table.is_empty() ? "" : table.html();
}

std::string power_html(const std::string& path, const PowerTable& power) {
  std::string plot = power_plot(power);
  // Its style is that of a file of its own; here it would be the whole page's.
  constexpr std::string_view end = "</style>";
  if (const auto from = plot.find("<style>"), to = plot.find(end); to != std::string::npos)
    plot.erase(from, to + end.size() - from);
  HtmlTable table(path + ": faults that opbound did not catch",
                  {"fault", "op", "what", "detection", "verdict", "control"});
  for (const PowerRow& row : power.rows)
    if (row.detection != Detection::caught)
      table.row({words(row.name), words(row.op), words(row.what), words(name_of(row.detection)),
                 words(name_of(row.verdict)), words(name_of(row.control))});
  return "<h3>" + html_text(path + ": " + power.cases) + "</h3>\n" + plot +
         (table.is_empty() ? paragraph("opbound caught every fault.") : table.html());
}

std::string sentinel_html(const SentinelFile& file) {
  HtmlTable table(file.path + ": faults planted in runs, and runs without",
                  {"fault", "policy", "kind", "steps to the alarm", "place", "false alarms"},
                  "cards");
  for (const SentinelResult& r : file.results) {
    const std::string place = r.place.empty() ? "none named" : r.place;
    const bool is_lost = r.is_planted() && !r.steps;
    table.row({words(r.name.empty() ? "no fault" : r.name), words(r.policy), words(r.kind),
               figure(r.steps          ? std::to_string(*r.steps)
                      : r.is_planted() ? "not found"
                                       : "none",
                      is_lost ? "fail" : ""),
               words(r.is_planted() ? (r.is_place_right ? "right: " : "wrong: ") + place : place),
               figure(std::to_string(r.false_alarms), r.false_alarms > 0 ? "fail" : "")});
  }
  return table.html();
}

}  // namespace

std::string training_section(const Inputs& inputs, const Traces& traces) {
  const std::vector<Curves> curves = curves_of(inputs, traces);
  if (curves.empty())
    return paragraph(
        "Not run: <code>opbound train FILE.toml --log FILE.jsonl</code> writes a log.");
  std::vector<PlotCurve> losses, norms;
  for (const Curves& c : curves) {
    losses.push_back(c.loss);
    norms.push_back(c.norm);
  }
  const PlotAxis step{"step"};
  std::string plots =
      curve_plot("loss against step", step, {"loss"}, losses) +
      curve_plot("gradient norm against step", step, {"gradient norm", true}, norms);
  if (traces.pair) {
    PlotCurve cosine{"1 - cosine", "", {}}, kl{"KL", "", {}};
    for (const trace::StepDistance& d : traces.pair->distances) {
      cosine.points.emplace_back(static_cast<double>(d.step), 1 - d.cosine);
      if (d.kl_nats) kl.points.emplace_back(static_cast<double>(d.step), *d.kl_nats);
    }
    plots += curve_plot("1 - cosine of the pair's fingerprints against step", step,
                        {"1 - cosine of the pair", true}, {cosine}) +
             curve_plot("KL divergence after the prompts against step", step,
                        {"KL of the pair, nats", true}, {kl});
  }
  return "<div class=\"plots\">\n" + plots + "</div>\n" + runs_table(inputs) + traces_table(traces);
}

std::string alarms_section(const Traces& traces) {
  if (traces.runs.empty())
    return paragraph(
        "Not run: <code>opbound train FILE.toml --trace FILE.trace --sentinel"
        "</code>.");
  constexpr std::size_t most = 500;  // told one by one; a run that goes wrong has thousands
  std::size_t count = 0;
  HtmlTable table("Alarms, from the traces", {"step", "trace", "level", "check", "place", "what"},
                  "cards");
  for (const TraceRun& run : traces.runs)
    for (const trace::TraceEvent& e : run.events)
      if (++count <= most)
        table.row({words(std::to_string(e.step)), words(run.path), words(e.level), words(e.check),
                   words(e.place), words(e.text)});
  if (count == 0) return paragraph("The traces hold no alarm.");
  std::string text = table.html();
  if (count > most)
    text += paragraph("and " + std::to_string(count - most) +
                      " more: <code>opbound trace show</code> has all of them");
  return text;
}

std::string faults_section(const Inputs& inputs) {
  std::string text;
  for (const auto& [path, power] : inputs.powers) text += power_html(path, power);
  for (const SentinelFile& file : inputs.sentinels) text += sentinel_html(file);
  if (inputs.powers.empty())
    text += paragraph(
        "Not run: <code>opbound power --out FILE.jsonl</code> plants faults in "
        "operators.");
  if (inputs.sentinels.empty())
    text += paragraph(
        "Not run: <code>opbound sentinel FILE.toml --out FILE.jsonl</code> plants "
        "faults in a run.");
  return text;
}

std::string claims_section(const Inputs& inputs) {
  if (inputs.claims.empty())
    return paragraph("Not run: <code>opbound claims --out FILE.jsonl</code>.");
  std::string text;
  for (const auto& [path, records] : inputs.claims) {
    HtmlTable table(path + ": " + claims::last_line(records),
                    {"claim", "what it says", "verdict", "because", "measured"}, "cards");
    for (const claims::ClaimRecord& r : records) {
      std::string figures;
      for (const claims::Figure& f : claims::figures_of(r))
        figures += (figures.empty() ? "" : "; ") + f.name + " " + legible(f.value) +
                   (f.unit.empty() ? "" : " " + f.unit);
      table.row({words(r.claim.id), words(r.claim.text), words(claims::name_of(r.judged.verdict)),
                 words(r.judged.because.empty() ? "every test" : r.judged.because),
                 words(figures.empty() ? "nothing ran" : figures)});
    }
    text += table.html();
  }
  return text;
}

std::string environment_section(const Inputs& inputs, const Traces& traces) {
  std::map<std::pair<std::string, std::string>, std::uint64_t> facts;
  const auto take = [&](const std::string& name, const std::string& value) {
    if (!value.empty()) ++facts[{name, value}];
  };
  for (const RecordFile& file : inputs.records)
    for (const Record& r : file.records) {
      take("device", r.device);
      take("commit", r.commit);
      take("provider", r.provider + (r.provider_version.empty() ? "" : " " + r.provider_version));
      for (const auto& [name, value] : r.environment) take(name, value);
    }
  for (const LogFile& file : inputs.logs)
    for (const train::LoggedRun& run : file.runs)
      for (const train::RunRecord& r : run.parts) {
        take("device", r.device);
        take("commit", r.commit);
        for (const auto& [name, value] : r.providers) take("provider", name + " " + value);
        for (const auto& [name, value] : r.environment) take(name, value);
      }
  for (const TraceRun& run : traces.runs) {
    take("device", run.head.device);
    for (const auto& [name, value] : run.head.providers) take("provider", name + " " + value);
    for (const auto& [name, value] : run.head.environment) take(name, value);
  }
  if (facts.empty())
    return paragraph(
        "No record, log or trace was given; <code>opbound env</code> tells of this "
        "machine.");
  HtmlTable table("What ran where", {"what", "value", "records, runs and traces that say so"});
  for (const auto& [fact, count] : facts)
    table.row({words(fact.first), words(fact.second), figure(std::to_string(count))});
  return table.html();
}

std::string sources_section(const Inputs& inputs, const Traces& traces) {
  HtmlTable table("Files that this page was made of", {"file", "kind", "holds"});
  const auto row = [&](const std::string& path, const char* kind, std::size_t n, const char* what) {
    table.row({words(path), words(kind), words(std::to_string(n) + " " + what)});
  };
  for (const RecordFile& f : inputs.records)
    row(f.path, f.is_audit() ? "audit records" : "records", f.records.size(), "checks");
  for (const LogFile& f : inputs.logs) row(f.path, "training log", f.runs.size(), "runs");
  for (const TraceRun& t : traces.runs) row(t.path, "trace", t.steps.size(), "steps");
  for (const std::string& path : inputs.twins) row(path, "trace of a twin", 1, "run");
  for (const AttributionFile& f : inputs.attributions)
    row(f.path, "attributions", f.classes.size(), "classes");
  for (const SentinelFile& f : inputs.sentinels)
    row(f.path, "sentinel results", f.results.size(), "runs");
  for (const auto& [path, power] : inputs.powers) row(path, "power", power.rows.size(), "faults");
  for (const auto& [path, records] : inputs.claims) row(path, "claims", records.size(), "claims");
  return table.html();
}

}  // namespace opbound::report
