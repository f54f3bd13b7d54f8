#include "reports/report/heat.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "reports/page.hpp"
#include "reports/report/html.hpp"
#include "reports/text.hpp"

namespace opbound::report {
namespace {

std::string layer_text(int layer) {
  return layer < 0 ? "no layer" : "layer " + std::to_string(layer);
}

std::string class_anchor(std::size_t file, std::size_t place) {
  return "class-" + std::to_string(file + 1) + "-" + std::to_string(place + 1);
}

/// What a cell adds up, and the class that adds most of it.
struct HeatCell {
  double share = 0, most = -1;
  std::string anchor;

  void add(double part, const std::string& of) {
    share += part;
    if (!(std::abs(part) > most)) return;
    most = std::abs(part);
    anchor = of;
  }
};

using HeatMap = std::map<std::pair<int, std::string>, HeatCell>;  // layer, column

/// A cell of a map: its share, its colour, its link.
HtmlCell heat_cell(double share, const std::string& text, const std::string& anchor) {
  if (anchor.empty()) return {html_text(text), heat_class(0)};
  return {link_to(anchor, text), heat_class(share)};
}

/// `adds_up`: the columns are parts of one whole, so that a layer's sum over them says something.
std::string map_html(const HeatMap& map, const std::vector<std::string>& columns,
                     const std::string& caption, bool adds_up) {
  std::set<int> layers;
  for (const auto& [place, cell] : map) layers.insert(place.first);
  std::vector<std::string> titles{"layer"};
  titles.insert(titles.end(), columns.begin(), columns.end());
  if (adds_up) titles.emplace_back("all");
  HtmlTable table(caption, titles, "heat");
  for (const int layer : layers) {
    std::vector<HtmlCell> cells{words(layer_text(layer))};
    HeatCell sum;
    for (const std::string& column : columns) {
      const auto found = map.find({layer, column});
      if (found == map.end()) {
        cells.push_back(heat_cell(0, "none", ""));
        continue;
      }
      const HeatCell& c = found->second;
      cells.push_back(heat_cell(c.share, percent(c.share), c.anchor));
      sum.add(c.share, c.anchor);
    }
    if (adds_up) cells.push_back(heat_cell(sum.share, percent(sum.share), sum.anchor));
    table.row(cells);
  }
  return table.html();
}

/// The classes of one run's file, with what their shares are measured against. Runs have maps of
/// their own: in a common one the run that errs more would hide the other.
class Contributions {
 public:
  Contributions(const AttributionFile& file, std::size_t place) : file_(file), place_(place) {
    for (const AttributedClass& c : file.classes) {
      squares_ += c.loss * c.loss;
      by_step_[c.step] += c.loss * c.loss;
      if (std::ranges::find(parts_, c.part) == parts_.end()) parts_.push_back(c.part);
      if (c.gradient_share) batches_.insert({c.step, c.micro_batch});
    }
  }

  std::string maps() const {
    HeatMap loss, gradient, steps;
    for (std::size_t i = 0; i < file_.classes.size(); ++i) {
      const AttributedClass& c = file_.classes[i];
      const std::string anchor = class_anchor(place_, i);
      const double square = c.loss * c.loss;
      if (squares_ > 0) loss[{c.layer, c.part}].add(square / squares_, anchor);
      if (by_step_.at(c.step) > 0)
        steps[{c.layer, std::to_string(c.step)}].add(square / by_step_.at(c.step), anchor);
      if (c.gradient_share)
        gradient[{c.layer, c.part}].add(*c.gradient_share / static_cast<double>(batches_.size()),
                                        anchor);
    }
    std::vector<std::string> step_names;
    for (const auto& [step, square] : by_step_) step_names.push_back(std::to_string(step));
    std::string text =
        map_html(loss, parts_, "Layer by op: share of the loss's squared error", true);
    if (!gradient.empty())
      text +=
          map_html(gradient, parts_,
                   "Layer by op: share of the gradient's deviation, backward calls included", true);
    return text + map_html(steps, step_names,
                           "Layer by step: share of the step's squared loss error", false);
  }

  std::string classes() const {
    HtmlTable table("Classes of calls, as the attribution told them",
                    {"part", "layer", "step", "micro-batch", "op", "pass", "precision", "calls",
                     "loss", "expected of rounding", "replayed", "gradient", "gradient share"});
    const auto shown = [](const std::optional<double>& x) { return x ? legible(*x) : "not run"; };
    for (std::size_t i = 0; i < file_.classes.size(); ++i) {
      const AttributedClass& c = file_.classes[i];
      table.row(
          {words(c.part), words(layer_text(c.layer)), figure(std::to_string(c.step)),
           figure(std::to_string(c.micro_batch)), words(c.op), words(c.pass), words(c.precision),
           figure(std::to_string(c.calls)), figure(legible(c.loss)), figure(shown(c.loss_expected)),
           figure(shown(c.loss_replayed)), figure(shown(c.gradient)),
           figure(c.gradient_share ? percent(*c.gradient_share) : "not run")},
          class_anchor(place_, i));
    }
    return folded(std::to_string(file_.classes.size()) + " classes of calls", table.html());
  }

  std::string batches() const {
    HtmlTable table("Micro-batches that were attributed",
                    {"step", "micro-batch", "loss error", "attributed", "unattributed",
                     "root of squares", "gradient's deviation", "of it unattributed"});
    const auto shown = [](const std::optional<double>& x) { return x ? legible(*x) : "not run"; };
    for (const AttributedBatch& b : file_.batches)
      table.row({words(std::to_string(b.step)), figure(std::to_string(b.micro_batch)),
                 figure(legible(b.measured)), figure(legible(b.predicted)),
                 figure(legible(b.unattributed)), figure(legible(b.root_of_squares)),
                 figure(shown(b.gradient)), figure(shown(b.gradient_unattributed))});
    return table.html();
  }

 private:
  const AttributionFile& file_;
  std::size_t place_;
  double squares_ = 0;
  std::map<std::int64_t, double> by_step_;
  std::set<std::pair<std::int64_t, std::int64_t>> batches_;
  std::vector<std::string> parts_;
};

/// Steps that a table of about twenty columns shows: evenly, the first and the last among them.
std::vector<const trace::StepDistance*> shown_steps(const TracePair& pair) {
  constexpr std::size_t most = 20;
  const std::size_t count = std::min(most, pair.distances.size());
  std::vector<const trace::StepDistance*> shown;
  for (std::size_t i = 0; i < count; ++i)
    shown.push_back(
        &pair.distances[count == 1 ? 0 : i * (pair.distances.size() - 1) / (count - 1)]);
  return shown;
}

/// The root mean square distance of a layer's parameters.
std::map<int, double> by_layer(const trace::StepDistance& d,
                               const std::vector<trace::TraceParameter>& parameters) {
  std::map<int, std::pair<double, int>> sums;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    auto& [square, count] = sums[parameters[p].layer];
    square += d.parameters[p] * d.parameters[p];
    ++count;
  }
  std::map<int, double> roots;
  for (const auto& [layer, sum] : sums) roots[layer] = std::sqrt(sum.first / sum.second);
  return roots;
}

std::string distance_map(const Traces& traces) {
  const TracePair& pair = *traces.pair;
  const auto shown = shown_steps(pair);
  const auto& parameters = traces.runs.front().parameters;
  double largest = 0;
  std::vector<std::string> titles{"layer"};
  std::vector<std::map<int, double>> columns;
  for (const trace::StepDistance* d : shown) {
    titles.push_back("step " + std::to_string(d->step));
    columns.push_back(by_layer(*d, parameters));
    for (const auto& [layer, root] : columns.back())
      if (std::isfinite(root)) largest = std::max(largest, root);
  }
  HtmlTable table(
      "Layer by step: root mean square of the relative distances of a layer's gradients; colours "
      "are shares of the largest",
      titles, "heat");
  for (const auto& [layer, unused] : columns.front()) {
    std::vector<HtmlCell> cells{words(layer_text(layer))};
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const double root = columns[i].at(layer);
      cells.push_back(heat_cell(largest > 0 ? root / largest : 0, legible(root),
                                "distance-" + std::to_string(shown[i]->step)));
    }
    table.row(cells);
  }
  return table.html();
}

std::string distance_table(const Traces& traces) {
  const TracePair& pair = *traces.pair;
  HtmlTable table("The pair, step by step",
                  {"step", "farthest parameter", "its distance", "its limit", "1 - cosine",
                   "difference of the losses", "KL, nats", "same most likely token",
                   "parameters with other bits"});
  for (const trace::StepDistance& d : pair.distances) {
    const auto farthest =
        static_cast<std::size_t>(std::ranges::max_element(d.parameters) - d.parameters.begin());
    const auto others = std::ranges::count_if(d.differs, [](auto x) { return x != 0; });
    const std::string limit = pair.must_agree ? "every bit"
                              : pair.band     ? legible(pair.band->limit(d.step, farthest))
                                              : "no twins";
    table.row(
        {words(std::to_string(d.step)), words(traces.runs.front().parameters[farthest].name),
         figure(legible(d.parameters[farthest])), figure(limit), figure(legible(1 - d.cosine)),
         figure(legible(d.loss)), figure(d.kl_nats ? legible(*d.kl_nats) : "not run"),
         figure(d.top1_share ? percent(*d.top1_share) : "not run"),
         figure(std::to_string(others) + " of " + std::to_string(d.differs.size()))},
        "distance-" + std::to_string(d.step));
  }
  return table.html();
}

std::string first_call_html(const TracePair& pair) {
  if (!pair.first_call)
    return paragraph(
        "No call is known that gave other bits from the same inputs: the bits of all "
        "calls are kept at the steps of <code>--trace-full</code>.");
  const trace::FirstCall& call = *pair.first_call;
  const auto told = [](const trace::TraceCall& c) {
    return html_text(c.part + ", " + c.op + " " + c.direction + ", " + c.precision + ", variant " +
                     c.variant + ", by " + c.provider);
  };
  return "<p id=\"first-call\"><b>The first call that gave other bits although it read the same</b>"
         ": step " +
         std::to_string(call.bits.step) + ", micro-batch " + std::to_string(call.bits.micro_batch) +
         ", " + layer_text(call.a.layer) + ": " + told(call.a) + "; in the other run " +
         told(call.b) +
         ". Cause: " + html_text(trace::cause_words[static_cast<std::size_t>(pair.cause)]) +
         ".</p>\n";
}

}  // namespace

std::string attribution_section(const Inputs& inputs) {
  std::string text;
  for (std::size_t f = 0; f < inputs.attributions.size(); ++f) {
    if (inputs.attributions[f].classes.empty()) continue;
    const Contributions of(inputs.attributions[f], f);
    if (inputs.attributions.size() > 1)
      text += "<h3>" + html_text(inputs.attributions[f].path) + "</h3>\n";
    text += of.maps() + of.batches() + of.classes();
  }
  if (text.empty())
    return paragraph(
        "Not run: <code>opbound attribute LOG.jsonl --step STEP --out FILE.jsonl"
        "</code> gives the contributions.");
  return paragraph(
             "A cell leads to the class of calls that adds most to it. Squares of "
             "contributions add up to 100% over a map; shares of the gradient's deviation "
             "have signs and add up to 100% less what is unattributed.") +
         text;
}

std::string distance_section(const Traces& traces) {
  if (!traces.pair)
    return paragraph(
        "Not run: two traces, <code>opbound train FILE.toml --trace FILE.trace</code>"
        " each, are compared.");
  std::string list;
  for (const std::string& word : traces.pair->differences)
    list += "<li>" + html_text(word) + "</li>\n";
  return (list.empty() ? paragraph("Same spec, device, ranks, providers and environment.", false)
                       : "<p>The runs differ in:</p>\n<ul>\n" + list + "</ul>\n") +
         first_call_html(*traces.pair) + distance_map(traces) +
         folded(std::to_string(traces.pair->distances.size()) + " steps", distance_table(traces));
}

}  // namespace opbound::report
