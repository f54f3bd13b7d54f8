// Records of claims as JSON.
#include <cmath>
#include <nlohmann/json.hpp>

#include "distributed/claims/ledger.hpp"
#include "reports/error.hpp"
#include "reports/json.hpp"

namespace opbound::claims {
namespace {

using Json = nlohmann::ordered_json;

Json number(double x) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x > 0 ? "inf" : "-inf";
  return x;
}

double number_of(const Json& json) {
  if (json.is_number()) return json.get<double>();
  const auto text = json.get<std::string>();
  if (text == "nan") return std::nan("");
  if (text == "inf" || text == "-inf") return text == "inf" ? INFINITY : -INFINITY;
  throw InputError("", "'" + text + "'", "a number, nan, inf or -inf");
}

Json json_of(const AttributeValue& value) {
  return std::visit([](const auto& v) { return Json(v); }, value);
}

AttributeValue attribute_of(const Json& json) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (json.is_number()) return json.get<double>();
  return json.get<std::string>();
}

Json json_of(const Figure& f) {
  Json json{{"name", f.name}, {"value", number(f.value)}};
  if (f.low != f.high) json.update(Json{{"low", number(f.low)}, {"high", number(f.high)}});
  if (!f.unit.empty()) json["unit"] = f.unit;
  json["what"] = f.what;
  return json;
}

Figure figure_of(const Json& json) {
  const double value = number_of(json.at("value"));
  Figure f{json.at("name").get<std::string>(), value, value, value, json.value("unit", ""),
           json.at("what").get<std::string>()};
  if (json.contains("low")) f.low = number_of(json.at("low"));
  if (json.contains("high")) f.high = number_of(json.at("high"));
  return f;
}

Json json_of(const Test& test) {
  return {{test.is_about_itself ? "itself" : "if", test.condition},
          {"figure", test.figure},
          {comparison_names[static_cast<std::size_t>(test.comparison)], test.operand}};
}

Test test_of(const Json& json) {
  Test test;
  test.is_about_itself = json.contains("itself");
  test.condition = json.at(test.is_about_itself ? "itself" : "if").get<std::string>();
  test.figure = json.at("figure").get<std::string>();
  for (std::size_t c = 0; c < comparison_names.size(); ++c)
    if (const auto at = json.find(comparison_names[c]); at != json.end()) {
      test.comparison = static_cast<Comparison>(c);
      test.operand = at->get<std::string>();
    }
  return test;
}

Json runs_of(const ClaimRecord& record) {
  Json runs = Json::array();
  for (std::size_t i = 0; i < record.claim.runs.size(); ++i) {
    const Run& run = record.claim.runs[i];
    Json json{{"experiment", run.experiment}};
    if (!run.prefix.empty()) json["as"] = run.prefix;
    json["parameters"] = Json::object();
    for (const auto& [name, value] : run.parameters) json["parameters"][name] = json_of(value);
    if (i < record.found.size()) {
      json["figures"] = Json::array();
      for (const Figure& f : record.found[i].figures) json["figures"].push_back(json_of(f));
      if (!record.found[i].source.empty()) json["source"] = record.found[i].source;
      json["time_ms"] = record.found[i].time_ms;
    }
    runs.push_back(std::move(json));
  }
  return runs;
}

void read_runs(const Json& runs, ClaimRecord& record) {
  for (const Json& json : runs) {
    Run run{json.at("experiment").get<std::string>(), json.value("as", ""), {}};
    for (const auto& [name, value] : json.at("parameters").items())
      run.parameters.emplace_back(name, attribute_of(value));
    record.claim.runs.push_back(std::move(run));
    if (!json.contains("figures")) continue;
    RunFound found;
    for (const Json& f : json.at("figures")) found.figures.push_back(figure_of(f));
    found.source = json.value("source", "");
    found.time_ms = json.at("time_ms").get<double>();
    record.found.push_back(std::move(found));
  }
}

ClaimRecord record_of(const Json& json) {
  if (json.at("kind") != "claim" || json.at("schema") != claim_schema)
    throw InputError("", "another kind of record", "a claim of schema 1");
  ClaimRecord record;
  record.claim.id = json.at("id").get<std::string>();
  record.claim.text = json.at("claim").get<std::string>();
  record.claim.note = json.value("note", "");
  read_runs(json.at("runs"), record);
  for (const Json& test : json.at("tests")) record.claim.tests.push_back(test_of(test));
  record.commit = json.at("commit").get<std::string>();
  record.device = json.at("device").get<std::string>();
  for (const auto& [name, value] : json.at("environment").items())
    record.environment.emplace_back(name, value.get<std::string>());
  const bool ran = !record.found.empty();
  const std::string because = json.value("because", "");
  record.judged = judge(record.claim, figures_of(record), ran ? "" : because);
  if (json.at("verdict") != name_of(record.judged.verdict) || because != record.judged.because)
    throw InputError(
        "", record.claim.id + " is '" + json.at("verdict").get<std::string>() + "'",
        "what follows from its figures, '" + std::string(name_of(record.judged.verdict)) + "'");
  return record;
}

}  // namespace

std::string to_json(const ClaimRecord& record) {
  Json json{{"schema", claim_schema},
            {"kind", "claim"},
            {"id", record.claim.id},
            {"claim", record.claim.text},
            {"verdict", name_of(record.judged.verdict)}};
  if (!record.judged.because.empty()) json["because"] = record.judged.because;
  if (!record.claim.note.empty()) json["note"] = record.claim.note;
  json["runs"] = runs_of(record);
  json["tests"] = Json::array();
  for (std::size_t i = 0; i < record.claim.tests.size(); ++i) {
    Json test = json_of(record.claim.tests[i]);
    if (i < record.judged.outcomes.size())
      test["outcome"] = outcome_names[static_cast<std::size_t>(record.judged.outcomes[i])];
    json["tests"].push_back(std::move(test));
  }
  json["commit"] = record.commit;
  json["device"] = record.device;
  json["environment"] = Json::object();
  for (const auto& [name, value] : record.environment) json["environment"][name] = value;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

ClaimRecord claim_from_json(std::string_view text, const std::string& file, long line) {
  constexpr int deepest = 16;  // far above what a record needs
  const Json json = opbound::detail::parse_json<Json>(text, deepest);
  if (!json.is_object()) throw InputError(file, line, "not a JSON object", "a record of a claim");
  try {
    return record_of(json);
  } catch (const InputError& e) {
    throw InputError(file, line, e.what());
  } catch (const nlohmann::json::exception&) {  // its words are a programmer's
    throw InputError(file, line, "a field that is missing or of another type",
                     "a record of a claim");
  }
}

}  // namespace opbound::claims
