#include "reports/report/suggestions.hpp"

#include <algorithm>
#include <map>

#include "distributed/trace/logged_spec.hpp"
#include "distributed/trace/training_again.hpp"
#include "ops/precision.hpp"
#include "reports/error.hpp"
#include "reports/page.hpp"
#include "reports/report/html.hpp"
#include "reports/text.hpp"

namespace opbound::report {
namespace {

/// An op of a policy's table and the precision that is tried.
struct Change {
  std::string part, precision;

  std::string text() const { return "op = \"" + part + "\", precision = \"" + precision + "\""; }
};

/// The ops that contribute most to a micro-batch, by the sum of their classes' squares. A weight's
/// rounding and a cast are of the op that reads what they make: no rule names them.
std::vector<Change> changes_for(const AttributionFile& file, const AttributedBatch& batch,
                                std::size_t most) {
  std::map<std::string, std::pair<double, bool>> parts;  // squares; all of it in fp32
  for (const AttributedClass& c : file.classes) {
    if (c.step != batch.step || c.micro_batch != batch.micro_batch) continue;
    if (c.part == "weight" || c.part == "cast") continue;
    auto& [square, is_fp32] = parts.try_emplace(c.part, 0.0, true).first->second;
    square += c.loss * c.loss;
    is_fp32 = is_fp32 && c.precision == "fp32";
  }
  std::vector<std::pair<std::string, std::pair<double, bool>>> sorted(parts.begin(), parts.end());
  std::ranges::stable_sort(sorted, std::ranges::greater(),
                           [](const auto& part) { return part.second.first; });
  std::vector<Change> changes;
  for (const auto& [part, of] : sorted)
    if (changes.size() < most && of.first > 0)
      changes.push_back({part, of.second ? "fp64" : "fp32"});
  return changes;
}

std::string place_of(const AttributionFile& file, const AttributedBatch& batch) {
  return file.path + ", step " + std::to_string(batch.step) + ", micro-batch " +
         std::to_string(batch.micro_batch);
}

/// Runs the batch again under the change, and says what became of its error.
void try_one(const AttributionFile& file, const AttributedBatch& batch, const Change& change,
             std::vector<Tried>& to) {
  Tried tried;
  tried.change = change.text();
  tried.of = place_of(file, batch);
  tried.indicator = "root of squares of the loss's contributions";
  try {
    train::TrainingSpec spec = trace::logged_spec(batch.spec, file.path);
    train::OpRuleChange rule;
    rule.op = change.part;
    rule.precision = precision_named(change.precision);
    rule.where = "--try";
    spec.policy.rules.push_back(rule);
    train::require_valid(spec, "--try");
    trace::AttributionRequest request;
    request.steps = {batch.step};
    request.micro_batch = batch.micro_batch;
    request.with_replay = batch.gradient.has_value();
    request.most_bytes = trace::machine_bytes();
    trace::AgainOptions how;
    how.data_sha256 = batch.data_sha256;
    const trace::AttributedRun run = trace::attribute_run(spec, request, how);
    const trace::Attribution& a = run.parts.front();
    tried.before = batch.root_of_squares;
    tried.after = a.root_of_squares;
    to.push_back(tried);
    if (!batch.gradient || !a.replay || !a.replay->gradient) return;
    tried.indicator = "deviation of the gradient, relative to its norm";
    tried.before = *batch.gradient;
    tried.after = a.replay->gradient->measured;
    to.push_back(tried);
  } catch (const std::exception& e) {  // a plug-in that is not here, a kernel that there is not
    tried.failure = e.what();
    to.push_back(tried);
  }
}

const std::string how_to =
    "Nothing was tried. <code>opbound report FILE.jsonl --try 3</code> runs three checks that fail "
    "again, by other algorithms and in a wider format; of a file of attributions the run, up to "
    "the "
    "step that was attributed, once for each of the three ops that contribute most. <code>opbound "
    "attribute --swap OP=PRECISION</code> does it for a micro-batch alone.";

/// Of changes of one run that are compared in several ways: smaller in every one of them?
bool is_smaller_in_all(const std::vector<Tried>& tried, const Tried& one) {
  return std::ranges::all_of(tried, [&](const Tried& t) {
    return t.of != one.of || t.change != one.change || t.is_smaller();
  });
}

HtmlCell result_cell(const std::vector<Tried>& tried, const Tried& t) {
  if (!t.verdict.empty())
    return words(std::string(t.verdict) + (t.is_mended ? "" : ": no cure"),
                 t.is_mended ? "pass" : "");
  if (is_smaller_in_all(tried, t)) return words("smaller in all", "pass short");
  return words(t.is_smaller() ? "smaller here alone" : "not smaller");
}

}  // namespace

std::vector<Tried> try_changes(const Inputs& inputs, const TryOptions& options) {
  std::vector<Tried> tried;
  try_record_changes(inputs, options, tried);
  for (const AttributionFile& file : inputs.attributions) {
    if (file.batches.empty()) continue;
    const AttributedBatch& batch =
        *std::ranges::max_element(file.batches, {}, &AttributedBatch::root_of_squares);
    for (const Change& change :
         changes_for(file, batch, static_cast<std::size_t>(std::max(options.most, 0)))) {
      if (options.on_note)
        options.on_note("trying " + change.text() + ": " + place_of(file, batch));
      try_one(file, batch, change, tried);
    }
  }
  return tried;
}

std::string suggestions_section(const Inputs& inputs, const std::vector<Tried>& tried, bool asked) {
  HtmlTable changes("Changes that were tried, with their measured effect",
                    {"[[rule]] of the policy, or keys of the [[case]]", "run again",
                     "what is compared", "before", "after", "change", "result"},
                    "cards");
  for (const Tried& t : tried) {
    if (!t.failure.empty()) {
      changes.row({{"<code>" + html_text(t.change) + "</code>"},
                   words(t.of),
                   words(t.indicator),
                   figure("not run"),
                   figure("not run"),
                   figure("not run"),
                   words(t.failure)});
      continue;
    }
    const std::string by = t.before > 0 ? legible(t.after / t.before) + " times" : "n/a";
    changes.row({{"<code>" + html_text(t.change) + "</code>"},
                 words(t.of),
                 words(t.indicator),
                 figure(legible(t.before)),
                 figure(legible(t.after)),
                 figure(by),
                 result_cell(tried, t)});
  }
  HtmlTable swaps("Swaps of one op in a micro-batch, from the attributions; they do not add up",
                  {"swap", "step", "micro-batch", "change of the loss", "change of the gradient"});
  for (const AttributionFile& file : inputs.attributions)
    for (const AttributedSwap& s : file.swaps)
      swaps.row({words(s.part + "=" + s.how), figure(std::to_string(s.step)),
                 figure(std::to_string(s.micro_batch)), figure(legible(s.change)),
                 figure(legible(s.gradient_change))});
  std::string text;
  if (!changes.is_empty()) text += changes.html();
  if (!swaps.is_empty()) text += swaps.html();
  if (asked && changes.is_empty())
    text += paragraph(
        "There was nothing to try: no check of a suite fails, and there is no file of attributions "
        "with the contribution of an op that a policy names.");
  return asked || !changes.is_empty() ? text : text + paragraph(how_to);
}

}  // namespace opbound::report
