// Detection tables as lines of JSON.
#include "reports/power.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "reports/error.hpp"
#include "reports/record_lines.hpp"

namespace opbound {
namespace {

using Json = nlohmann::ordered_json;

constexpr int power_schema = 1;

Json json_of(const RuleResult& r) {
  Json j{{"rule", r.rule}, {"detection", name_of(r.detection)}};
  if (r.detection == Detection::not_for) {
    j["why_not"] = r.why_not;
  } else {
    j["flagged"] = r.flagged;
    j["control_flagged"] = r.control_flagged;
  }
  return j;
}

Json json_of(const PowerRow& r) {
  Json j{{"kind", "fault"},
         {"family", r.family},
         {"op", r.op},
         {"name", r.name},
         {"what", r.what},
         {"direction", r.direction},
         {"precision", r.precision},
         {"shape", r.shape},
         {"elements", r.elements},
         {"detection", name_of(r.detection)},
         {"verdict", name_of(r.verdict)},
         {"control", name_of(r.control)},
         {"found_by", r.found_by}};
  if (r.ratio && std::isfinite(*r.ratio))
    j["ratio"] = *r.ratio;
  else if (r.ratio)
    j["ratio"] = "inf";
  for (const RuleResult& rule : r.rules) j["rules"].push_back(json_of(rule));
  return j;
}

Json json_of(const AlarmCount& a) {
  return {{"kind", "right"},        {"op", a.op},
          {"inputs", a.inputs},     {"rule", a.rule},
          {"cases", a.cases},       {"flagged_cases", a.flagged_cases},
          {"elements", a.elements}, {"flagged_elements", a.flagged_elements}};
}

/// The fields of one line, each of which has to be asked for.
class Fields {
 public:
  Fields(const Json& json, std::string_view file, long line)
      : json_(json), file_(file), line_(line) {
    if (!json.is_object()) fail("not an object", "an object");
  }

  std::string text(const char* key) {
    const Json& value = at(key);
    if (!value.is_string()) fail(std::string(key) + " is no text", "a text");
    return value.get<std::string>();
  }
  std::uint64_t count(const char* key) {
    const Json& value = at(key);
    if (!value.is_number_unsigned()) fail(std::string(key) + " is no count", "a whole number");
    return value.get<std::uint64_t>();
  }
  bool flag(const char* key) {
    const Json& value = at(key);
    if (!value.is_boolean()) fail(std::string(key) + " is no flag", "true or false");
    return value.get<bool>();
  }
  std::optional<double> ratio() {
    if (!json_.contains("ratio")) return std::nullopt;
    const Json& value = at("ratio");
    if (value == "inf") return std::numeric_limits<double>::infinity();
    if (!value.is_number()) fail("ratio is no number", "a number or \"inf\"");
    return value.get<double>();
  }
  /// A word of a list, as its place.
  template <class E, class Names>
  E word(const char* key, const Names& names) {
    const std::string value = text(key);
    for (std::size_t i = 0; i < names.size(); ++i)
      if (names[i] == value) return static_cast<E>(i);
    fail(std::string(key) + " '" + value + "'", "one of the words that reports/README.md lists");
  }
  Verdict verdict(const char* key) {
    const std::string word = text(key);
    const auto named = verdict_named(word);
    if (!named) fail(std::string(key) + " '" + word + "'", "a verdict");
    return *named;
  }
  const Json& list(const char* key) {
    const Json& value = at(key);
    if (!value.is_array()) fail(std::string(key) + " is no list", "a list");
    return value;
  }
  Fields part(const Json& json) const { return {json, file_, line_}; }
  /// No field is left over.
  void end() const {
    if (seen_ != json_.size()) fail("an unknown field", "those that reports/README.md lists");
  }
  [[noreturn]] void fail(const std::string& what, const char* expected) const {
    throw InputError(file_, line_, what, expected);
  }

 private:
  const Json& at(const char* key) {
    const auto found = json_.find(key);
    if (found == json_.end()) fail(std::string("no ") + key, "that field");
    ++seen_;
    return *found;
  }

  const Json& json_;
  std::string_view file_;
  long line_;
  std::size_t seen_ = 0;
};

RuleResult rule_of(Fields f) {
  RuleResult r;
  r.rule = f.text("rule");
  r.detection = f.word<Detection>("detection", detection_names);
  if (r.detection == Detection::not_for) {
    r.why_not = f.text("why_not");
  } else {
    r.flagged = f.count("flagged");
    r.control_flagged = f.count("control_flagged");
  }
  f.end();
  return r;
}

PowerRow row_of(Fields& f) {
  PowerRow r;
  r.family = f.text("family");
  r.op = f.text("op");
  r.name = f.text("name");
  r.what = f.text("what");
  r.direction = f.text("direction");
  r.precision = f.text("precision");
  r.shape = f.text("shape");
  r.elements = f.count("elements");
  r.detection = f.word<Detection>("detection", detection_names);
  r.verdict = f.verdict("verdict");
  r.control = f.verdict("control");
  r.found_by = f.text("found_by");
  r.ratio = f.ratio();
  for (const Json& rule : f.list("rules")) r.rules.push_back(rule_of(f.part(rule)));
  return r;
}

AlarmCount count_of(Fields& f) {
  AlarmCount a;
  a.op = f.text("op");
  a.inputs = input_classes[f.word<std::size_t>("inputs", input_classes)];
  a.rule = f.text("rule");
  a.cases = f.count("cases");
  a.flagged_cases = f.count("flagged_cases");
  a.elements = f.count("elements");
  a.flagged_elements = f.count("flagged_elements");
  return a;
}

}  // namespace

std::string to_json_lines(const PowerTable& table) {
  const Json head{{"kind", "power"},
                  {"schema", power_schema},
                  {"commit", table.commit},
                  {"cases", table.cases},
                  {"is_whole", table.is_whole}};
  std::string text = head.dump() + "\n";
  for (const PowerRow& r : table.rows) text += json_of(r).dump() + "\n";
  for (const AlarmCount& a : table.alarms) text += json_of(a).dump() + "\n";
  return text;
}

PowerTable read_power(const std::string& path) {
  PowerTable table;
  bool has_head = false;
  for_each_line(path, [&](std::string_view text, long line) {
    const Json json = Json::parse(text, nullptr, false);
    if (json.is_discarded()) throw InputError(path, line, "not JSON", "a line of `opbound power`");
    Fields f(json, path, line);
    const std::string kind = f.text("kind");
    if (kind == "power") {
      if (f.count("schema") != power_schema) f.fail("another schema", "schema 1");
      table = {};
      table.commit = f.text("commit");
      table.cases = f.text("cases");
      table.is_whole = f.flag("is_whole");
      has_head = true;
    } else if (!has_head) {
      f.fail("no line of kind \"power\" before it", "what `opbound power --out` wrote");
    } else if (kind == "fault") {
      table.rows.push_back(row_of(f));
    } else if (kind == "right") {
      table.alarms.push_back(count_of(f));
    } else {
      f.fail("kind '" + kind + "'", "power, fault or right");
    }
    f.end();
  });
  if (!has_head) throw InputError(path, "no detection table", "what `opbound power --out` wrote");
  return table;
}

bool PowerTable::is_perfect() const {
  return std::ranges::all_of(rows,
                             [](const PowerRow& r) { return r.detection == Detection::caught; }) &&
         std::ranges::all_of(alarms, [](const AlarmCount& a) {
           return a.rule != own_rule || (a.flagged_cases == 0 && a.flagged_elements == 0);
         });
}

namespace detail {

std::vector<RuleTotals> totals_of(const PowerTable& table) {
  std::vector<RuleTotals> all{{.rule = std::string(own_rule)}};
  const auto of = [&](const std::string& rule) -> RuleTotals& {
    const auto found = std::ranges::find(all, rule, &RuleTotals::rule);
    return found != all.end() ? *found : all.emplace_back(RuleTotals{.rule = rule});
  };
  for (const PowerRow& row : table.rows) {
    ++all.front().rows[static_cast<std::size_t>(row.detection)];
    for (const RuleResult& r : row.rules) ++of(r.rule).rows[static_cast<std::size_t>(r.detection)];
  }
  for (const AlarmCount& a : table.alarms) {
    RuleTotals& t = of(a.rule);
    const auto c = static_cast<std::size_t>(std::ranges::find(input_classes, a.inputs) -
                                            input_classes.begin());
    t.cases[c] += a.cases;
    t.flagged[c] += a.flagged_cases;
    t.elements[c] += a.elements;
    t.flagged_elements[c] += a.flagged_elements;
  }
  return all;
}

}  // namespace detail
}  // namespace opbound
