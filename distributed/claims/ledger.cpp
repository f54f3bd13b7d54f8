#include "distributed/claims/ledger.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "generated/version.hpp"
#include "ops/provider.hpp"
#include "reports/error.hpp"
#include "reports/record_lines.hpp"
#include "reports/text.hpp"

namespace opbound::claims {
namespace {

using Clock = std::chrono::steady_clock;

std::string named(const Run& run, const Figure& figure) {
  return run.prefix.empty() ? figure.name : run.prefix + "." + figure.name;
}

/// Whole numbers, such as counts, in full.
std::string readable(double x) {
  constexpr double most = 1e6;
  return std::abs(x) < most && x == std::floor(x) ? shortest(x) : legible(x);
}

std::string text_of(const Figure& f) {
  std::string text = f.name + " = " + readable(f.value);
  if (f.low != f.high) text += " [" + legible(f.low) + ", " + legible(f.high) + "]";
  return f.unit.empty() ? text : text + " " + f.unit;
}

std::string text_of(const Test& test) {
  return test.figure + " " +
         std::string(comparison_names[static_cast<std::size_t>(test.comparison)]) + " " +
         test.operand;
}

/// Those that decide, each once.
std::string deciding_figures(const ClaimRecord& record) {
  std::string text;
  std::vector<std::string> seen;
  for (const Figure& f : figures_of(record)) {
    const bool decides =
        std::any_of(record.claim.tests.begin(), record.claim.tests.end(),
                    [&](const Test& t) { return t.figure == f.name || t.operand == f.name; });
    if (!decides || std::find(seen.begin(), seen.end(), f.name) != seen.end()) continue;
    seen.push_back(f.name);
    text.append(text.empty() ? "" : "; ").append(text_of(f));
  }
  return text;
}

std::string experiments_of(const Claim& claim) {
  std::string text;
  std::vector<std::string> seen;
  for (const Run& run : claim.runs) {
    if (std::find(seen.begin(), seen.end(), run.experiment) != seen.end()) continue;
    seen.push_back(run.experiment);
    text.append(text.empty() ? "" : ", ").append(run.experiment);
  }
  return text;
}

std::string verdict_text(const Judged& judged) {
  const std::string text(name_of(judged.verdict));
  if (judged.because.empty()) return text;
  switch (judged.verdict) {
    case ClaimVerdict::holds_only_if:
      return text + " " + judged.because;
    case ClaimVerdict::contradicts_itself: {
      std::string because = judged.because;
      const std::string_view joint = "; or ", nor = "; nor that ";
      for (std::size_t at = because.find(joint); at != std::string::npos;
           at = because.find(joint, at + nor.size()))
        because.replace(at, joint.size(), nor);
      return text + ": it is not so that " + because;
    }
    default:
      return text + ": " + judged.because;
  }
}

Colour colour_of(ClaimVerdict v) {
  switch (v) {
    case ClaimVerdict::confirmed:
      return Colour::good;
    case ClaimVerdict::not_testable_here:
      return Colour::plain;
    case ClaimVerdict::holds_only_if:
      return Colour::doubtful;
    default:
      return Colour::bad;
  }
}

std::string section_of(const ClaimRecord& r) {
  std::string text = "### " + r.claim.id + "\n\n" + r.claim.text + "\n\n**" +
                     std::string(name_of(r.judged.verdict)) + "**" +
                     verdict_text(r.judged).substr(name_of(r.judged.verdict).size()) + ".";
  if (!r.claim.note.empty()) text.append(" ").append(r.claim.note);
  text += "\n\n";
  for (std::size_t i = 0; i < r.found.size(); ++i) {
    const Run& run = r.claim.runs[i];
    text.append("`").append(run.experiment).append("`");
    if (!run.parameters.empty()) text.append(": ").append(attributes_text(run.parameters));
    if (!r.found[i].source.empty()) text.append("; read from ").append(r.found[i].source);
    text += "\n\n";
    Table table(
        {{"figure"}, {"value", true}, {"from", true}, {"to", true}, {"unit"}, {"what it is"}});
    for (const Figure& f : r.found[i].figures) {
      const bool exact = f.low == f.high;
      table.add_row({{named(run, f)},
                     {readable(f.value)},
                     {exact ? "" : legible(f.low)},
                     {exact ? "" : legible(f.high)},
                     {f.unit},
                     {f.what}});
    }
    text += table.markdown() + "\n";
  }
  if (r.judged.outcomes.empty()) return text;
  Table table({{"test"}, {"says"}, {"outcome"}});
  for (std::size_t i = 0; i < r.claim.tests.size(); ++i) {
    const Test& t = r.claim.tests[i];
    table.add_row({{text_of(t)},
                   {(t.is_about_itself ? "it would take that " : "holds only if ") + t.condition},
                   {std::string(outcome_names[static_cast<std::size_t>(r.judged.outcomes[i])])}});
  }
  return text + table.markdown() + "\n";
}

}  // namespace

std::vector<Figure> figures_of(const ClaimRecord& record) {
  std::vector<Figure> all;
  for (std::size_t i = 0; i < record.found.size(); ++i)
    for (Figure f : record.found[i].figures) {
      f.name = named(record.claim.runs[i], f);
      all.push_back(std::move(f));
    }
  return all;
}

ClaimRecord examine(const Claim& claim, Laboratory& laboratory) {
  ClaimRecord record;
  record.claim = claim;
  record.commit = commit;
  record.device = laboratory.device;
  const std::unique_ptr<Provider> own = own_host_provider();
  record.environment = own->environment();
  std::string absence = claim.not_run;
  for (const Run& run : claim.runs) {
    const Experiment* experiment = find_experiment(run.experiment);
    detail::require(experiment != nullptr, "a claim that was read names an experiment");
    const Clock::time_point begin = Clock::now();
    try {
      Measured measured = experiment->run(Given(run.parameters), laboratory);
      record.found.push_back(
          {std::move(measured.figures), std::move(measured.source),
           std::chrono::duration<double, std::milli>(Clock::now() - begin).count()});
    } catch (const Unavailable& e) {
      absence = e.what();
      break;
    } catch (const InputError& e) {
      throw InputError(claim.place, claim.id + ": " + e.what());
    }
  }
  if (!absence.empty()) record.found.clear();
  record.judged = judge(claim, figures_of(record), absence);
  return record;
}

std::vector<ClaimRecord> read_claim_records(const std::string& path) {
  std::vector<ClaimRecord> records;
  for_each_line(path, [&](std::string_view text, long line) {
    records.push_back(claim_from_json(text, path, line));
  });
  if (records.empty())
    throw InputError(path, "no records of claims", "a file that `opbound claims --out` wrote");
  return records;
}

std::string last_line(std::span<const ClaimRecord> records) {
  std::string text;
  for (std::size_t v = 0; v < claim_verdict_names.size(); ++v) {
    const auto count = std::count_if(records.begin(), records.end(), [&](const ClaimRecord& r) {
      return r.judged.verdict == static_cast<ClaimVerdict>(v);
    });
    text.append(text.empty() ? "" : ", ").append(claim_verdict_names[v]).append(" ");
    text += std::to_string(count);
  }
  return text;
}

std::string claims_table(std::span<const ClaimRecord> records, const Terminal& terminal) {
  Table table({{"id"}, {"claim", false, 30}, {"measured", false, 30}, {"verdict", false, 24}});
  for (const ClaimRecord& r : records)
    table.add_row({{r.claim.id},
                   {r.claim.text},
                   {deciding_figures(r)},
                   {verdict_text(r.judged), colour_of(r.judged.verdict)}});
  return table.terminal(terminal) + last_line(records) + "\n";
}

std::string claims_page(std::span<const ClaimRecord> records) {
  Table table({{"id"}, {"claim"}, {"experiment"}, {"measured"}, {"verdict"}});
  for (const ClaimRecord& r : records) {
    table.add_row({{r.claim.id},
                   {r.claim.text},
                   {experiments_of(r.claim)},
                   {deciding_figures(r)},
                   {verdict_text(r.judged)}});
  }
  std::string text =
      "# The claims ledger\n\n"
      "What a widely read article says of precision in training, restated, each with the "
      "experiment\n"
      "that `opbound claims` runs for it. Verdicts are computed from the figures by the tests "
      "listed "
      "with\n"
      "each claim; [suites/claims/README.md](../suites/claims/README.md) says how. This page is "
      "made "
      "from\n"
      "records by `opbound claims --records FILE.jsonl --markdown`.\n\n" +
      last_line(records) + ".\n\n" + table.markdown() + "\n## Each claim\n\n";
  for (const ClaimRecord& r : records) text += section_of(r);
  while (text.ends_with("\n\n")) text.pop_back();
  return text;
}

}  // namespace opbound::claims
