#include "reports/report/record_list.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <tuple>

#include "reports/page.hpp"
#include "reports/record_words.hpp"
#include "reports/report/html.hpp"
#include "reports/report/plot.hpp"
#include "reports/standing.hpp"
#include "reports/text.hpp"

namespace opbound::report {
namespace {

constexpr std::string_view times = "\u00d7";

/// All that tells two rows apart, as in the error table; an audit's records are rows of their own.
auto identity(const Record& r) {
  return std::tuple(r.op, r.direction, r.precision, r.part, r.variant, r.kind, r.provider,
                    r.provider_version, r.contract, r.device, r.ranks, r.schedule,
                    r.in_situ.has_value());
}

bool is_worse(const Record& a, const Record& b) {
  const auto key = [](const Record& r) {
    return std::tuple(standing(r), -r.ratio.value_or(-1), -r.error_ulp_max.value_or(-1));
  };
  return key(a) < key(b);
}

std::string verdict_text(const Record& r) {
  return std::string(name_of(r.verdict)) + (is_allowed(r) ? "*" : "");
}

std::string_view verdict_kind(const Record& r) {
  if (makes_run_fail(r)) return "fail";
  return r.verdict == Verdict::within ? "pass" : "";
}

std::string number(const std::optional<double>& x) { return x ? legible(*x) : "n/a"; }

std::string or_none(const std::string& text) { return text.empty() ? "none" : text; }

std::string place_text(const Record& r) {
  std::string text = shape_text(r, times);
  if (!r.inputs.input.empty()) text += (text.empty() ? "" : " ") + r.inputs.input;
  if (r.in_situ)
    text += " step " + std::to_string(r.in_situ->step) + " rank " +
            std::to_string(r.in_situ->rank) + " layer " + std::to_string(r.in_situ->layer) +
            " call " + std::to_string(r.in_situ->call);
  return text;
}

std::string worst_text(const Record& r) {
  if (!r.worst) return "n/a";
  std::string text = "element " + std::to_string(r.worst->index);
  for (const auto& [name, value] : r.worst->input) text += ", " + name + " " + shortest(value);
  return text + ": got " + shortest(r.worst->got) + ", exact " + shortest(r.worst->low) +
         (r.worst->low == r.worst->high ? "" : " to " + shortest(r.worst->high)) + ", bound " +
         legible(r.worst->bound);
}

/// A column of the error table: its cell in each row.
struct Column {
  const char* title;
  bool may_go;  ///< where all rows say the same, the caption says it once
  std::function<HtmlCell(const RecordRow&)> cell;
};

HtmlCell histogram_cell(const RecordRow& row) {
  UlpHistogram::Counts counts{};
  for (const Record* one : row.records)
    for (std::size_t i = 0; i < one->ulp_histogram.counts.size() && i < counts.size(); ++i)
      counts[i] += one->ulp_histogram.counts[i];
  const std::string histogram = histogram_plot(counts);
  return {histogram.empty() ? "not counted" : histogram};
}

std::vector<Column> columns_of(const RecordList& list) {
  const auto word = [](const char* title, auto of) {
    return Column{title, true,
                  [of](const RecordRow& row) { return words(or_none(of(*row.worst))); }};
  };
  const auto value = [](const char* title, std::optional<double> Record::*of) {
    return Column{title, false,
                  [of](const RecordRow& row) { return figure(number(row.worst->*of)); }};
  };
  std::vector<Column> all;
  all.push_back(word("part", [](const Record& r) { return r.part; }));
  all.back().may_go = false;  // it heads the row
  all.push_back(
      word("direction", [](const Record& r) { return direction_text(r.direction, false); }));
  all.push_back(word("variant", [](const Record& r) { return r.variant; }));
  all.push_back(word("precision", [](const Record& r) { return r.precision; }));
  all.push_back({"worst case", false, [&list](const RecordRow& row) {
                   return HtmlCell{list.link(*row.worst, or_none(place_text(*row.worst)))};
                 }});
  all.push_back({"cases", false,
                 [](const RecordRow& row) { return figure(std::to_string(row.records.size())); }});
  all.push_back(word("provider", [](const Record& r) { return r.provider; }));
  all.push_back(word("device", [](const Record& r) { return r.device; }));
  all.push_back({"verdict", false, [](const RecordRow& row) {
                   return words(verdict_text(*row.worst), verdict_kind(*row.worst));
                 }});
  all.push_back(value("ratio", &Record::ratio));
  all.push_back(value("acceptable max", &Record::acceptable_max));
  all.push_back(value("max ulp", &Record::error_ulp_max));
  all.push_back(value("bias ulp", &Record::bias_ulp));
  all.push_back(
      {"elements", false, [](const RecordRow& row) { return figure(legible(row.checked)); }});
  all.push_back({"elements by error", false, histogram_cell});
  all.push_back(word("bound source", [](const Record& r) { return r.bound_source; }));
  return all;
}

/// One op's error table; each row leads to its worst record.
std::string rows_html(const RecordList& list, const std::string& op,
                      const std::vector<RecordRow>& rows) {
  std::vector<std::vector<HtmlCell>> cells(rows.size());
  std::vector<std::string> titles;
  std::string common;
  for (const Column& column : columns_of(list)) {
    std::vector<HtmlCell> of;
    for (const RecordRow& row : rows) of.push_back(column.cell(row));
    const bool is_same =
        std::ranges::all_of(of, [&](const HtmlCell& c) { return c.html == of.front().html; });
    if (column.may_go && is_same && of.front().html != "none") {
      common +=
          std::string(common.empty() ? "; all: " : ", ") + column.title + " " + of.front().html;
      continue;
    }
    if (column.may_go && is_same) continue;
    titles.emplace_back(column.title);
    for (std::size_t i = 0; i < of.size(); ++i) cells[i].push_back(std::move(of[i]));
  }
  HtmlTable table(op + ": the worst case of each row" + common, titles);
  for (const std::vector<HtmlCell>& row : cells) table.row(row);
  return table.html();
}

std::vector<RecordRow> rows_on_paper(const std::vector<RecordRow>& rows) {
  const auto group = [](const Record& r) {
    return std::tuple(r.part, r.direction, r.precision, r.provider, r.device);
  };
  std::map<decltype(group(Record{})), const Record*> worst;
  for (const RecordRow& row : rows) {
    const Record*& of = worst[group(*row.worst)];
    if (of == nullptr || is_worse(*row.worst, *of)) of = row.worst;
  }
  std::vector<RecordRow> kept;
  for (const RecordRow& row : rows)
    if (makes_run_fail(*row.worst) || worst[group(*row.worst)] == row.worst) kept.push_back(row);
  return kept;
}

/// The records of an op that are listed, each with its anchor.
std::string records_html(const RecordList& list, const std::string& op,
                         const std::vector<RecordRow>& rows, std::size_t& count) {
  HtmlTable table(op + ": records", {"check", "attributes", "case", "seed", "verdict", "ratio",
                                     "max ulp", "elements", "worst element", "reason"});
  for (const RecordRow& row : rows)
    for (const Record* r : row.records) {
      if (!list.is_listed(*r)) continue;
      ++count;
      const std::string reason = is_allowed(*r) ? "allowed: " + r->allowed_vacuous : r->reason;
      table.row({words(or_none(r->part) + " " + direction_text(r->direction, false) + " " +
                       r->variant + " " + r->precision + " " + r->provider + " " + r->device),
                 words(or_none(attributes_text(r->attributes))), words(or_none(place_text(*r))),
                 figure(r->inputs.seed ? std::to_string(*r->inputs.seed) : "none"),
                 words(verdict_text(*r), verdict_kind(*r)), figure(number(r->ratio)),
                 figure(number(r->error_ulp_max)), figure(legible(r->counts.checked)),
                 words(worst_text(*r)), words(or_none(reason))},
                list.anchor(*r));
    }
  return table.html();
}

}  // namespace

RecordList::RecordList(const Inputs& inputs, bool is_for_paper) : is_for_paper_(is_for_paper) {
  std::map<std::string, std::size_t> op_places;
  std::map<decltype(identity(Record{})), std::pair<std::size_t, std::size_t>> known;
  for (std::size_t f = 0; f < inputs.records.size(); ++f)
    for (std::size_t i = 0; i < inputs.records[f].records.size(); ++i) {
      const Record& r = inputs.records[f].records[i];
      places_[&r] = {"record-" + std::to_string(f + 1) + "-" + std::to_string(i + 1), true};
      const auto [op, is_new_op] = op_places.try_emplace(r.op, ops_.size());
      if (is_new_op) ops_.emplace_back(r.op, std::vector<RecordRow>());
      std::vector<RecordRow>& rows = ops_[op->second].second;
      const auto [row, is_new] = known.try_emplace(identity(r), op->second, rows.size());
      if (is_new) rows.emplace_back();
      RecordRow& to = rows[row->second.second];
      to.records.push_back(&r);
      to.checked += r.counts.checked;
      if (to.worst == nullptr || is_worse(r, *to.worst)) to.worst = &r;
    }
  for (auto& [op, rows] : ops_)
    std::ranges::stable_sort(rows, {}, [](const RecordRow& row) {
      return makes_run_fail(*row.worst) ? standing(*row.worst) : 2 * int{all_verdicts.size()};
    });
  if (is_whole()) return;
  for (auto& [r, place] : places_) place.is_listed = makes_run_fail(*r);
  for (const auto& [op, rows] : ops_)
    for (const RecordRow& row : rows) places_[row.worst].is_listed = true;
}

std::string RecordList::link(const Record& r, const std::string& text) const {
  return is_listed(r) && !is_for_paper_ ? link_to(anchor(r), text) : html_text(text);
}

std::string RecordList::name_of(const Record& r) {
  std::string text = r.op;
  for (const std::string& word : {r.part, direction_text(r.direction, false), r.precision,
                                  r.variant, r.provider, place_text(r)})
    if (!word.empty()) text += " " + word;
  return text;
}

std::string records_section(const RecordList& list) {
  if (list.count() == 0)
    return paragraph("No records: <code>opbound run --out FILE.jsonl</code> writes them.");
  std::string text = paragraph(
      "Each point of a plot is a check, and leads to its record where that is listed. Below 1e-6, "
      "0 among it, and above 1e6 points stand at the edge. <i>vacuous*</i>: the bound says "
      "nothing there, which the suite allows by name; the record has the reason.");
  if (!list.is_whole())
    text += paragraph(std::to_string(list.count()) +
                      " records: one by one stand only those that make the run fail and the worst "
                      "of each row; <code>opbound table --all</code> has all of them.");
  std::size_t row_count = 0;
  for (const auto& [op, rows] : list.ops()) row_count += rows.size();
  const bool is_brief = list.is_for_paper() && row_count > most_rows_on_paper;
  if (is_brief)
    text += paragraph(std::to_string(row_count) +
                      " rows: on paper stand those that make the run fail, and of each output, "
                      "direction and precision the worst algorithm; the page has all of them.");
  for (const auto& [op, rows] : list.ops()) {
    text += "<h3 id=\"op-" + anchor_of(op) + "\">" + html_text(op) + "</h3>\n" +
            record_plots(list, op, rows) +
            rows_html(list, op, is_brief ? rows_on_paper(rows) : rows);
    std::size_t count = 0;
    const std::string records = records_html(list, op, rows, count);
    // A file of paper has the tables; thousands of its lines would have no reader.
    text += list.is_for_paper()
                ? paragraph(std::to_string(count) + " records one by one: in the page.")
                : folded(std::to_string(count) + " records of " + op, records);
  }
  return text;
}

}  // namespace opbound::report
