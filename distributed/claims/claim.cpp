#include "distributed/claims/claim.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "distributed/claims/experiment.hpp"
#include "reports/error.hpp"
#include "suites/suggest.hpp"
#include "suites/suite_toml.hpp"
#include "suites/tensor_file.hpp"

namespace opbound::claims {
namespace {

using detail::TomlTable;
using detail::TomlValue;

constexpr std::array<std::string_view, 6> claim_keys{"id",      "claim", "note",
                                                     "not_run", "run",   "test"};
constexpr std::array<std::string_view, 10> test_keys{
    "if", "itself", "figure", "equals", "is", "is_not", "above", "below", "at_least", "at_most"};

std::string type_of(const AttributeValue& value) {
  constexpr std::array<std::string_view, 4> types{"true or false", "a whole number", "a number",
                                                  "a string"};
  return std::string(types[value.index()]);
}

/// What a key says, as the type that the parameter has.
AttributeValue value_of(const TomlValue& given, const AttributeValue& left_out) {
  const std::string expected = type_of(left_out);
  AttributeValue value = given.attribute(expected);
  if (const auto* whole = std::get_if<std::int64_t>(&value);
      whole != nullptr && std::holds_alternative<double>(left_out))
    value = static_cast<double>(*whole);
  if (value.index() != left_out.index()) given.refuse_type(expected);
  return value;
}

Run read_run(const TomlValue& table) {
  const std::vector<TomlValue::Entry> entries = table.entries();
  Run run;
  const Experiment* experiment = nullptr;
  for (const TomlValue::Entry& e : entries) {
    if (e.key == "as") run.prefix = e.value.text();
    if (e.key != "experiment") continue;
    run.experiment = e.value.text();
    experiment = find_experiment(run.experiment);
    if (experiment != nullptr) continue;
    std::vector<std::string_view> known;
    for (const Experiment& x : all_experiments()) known.push_back(x.name);
    e.value.refuse("unknown experiment " + detail::in_quotes_with_suggestion(run.experiment, known),
                   detail::one_of(known));
  }
  if (experiment == nullptr) table.refuse("no experiment", "key experiment");
  std::vector<std::string_view> known{"experiment", "as"};
  for (const Parameter& p : experiment->parameters) {
    known.push_back(p.name);
    AttributeValue value = p.left_out;
    for (const TomlValue::Entry& e : entries)
      if (e.key == p.name) value = value_of(e.value, p.left_out);
    run.parameters.emplace_back(p.name, std::move(value));
  }
  for (const TomlValue::Entry& e : entries)
    if (std::find(known.begin(), known.end(), e.key) == known.end())
      e.value.refuse_key("key", known);
  return run;
}

Test read_test(const TomlValue& value) {
  const TomlTable table(value, test_keys);
  Test test;
  const TomlValue* condition = table.find("if");
  const TomlValue* itself = table.find("itself");
  if ((condition == nullptr) == (itself == nullptr))
    value.refuse(condition == nullptr ? "neither 'if' nor 'itself'" : "both 'if' and 'itself'",
                 "one of them");
  test.is_about_itself = itself != nullptr;
  test.condition = (test.is_about_itself ? itself : condition)->text();
  test.figure = table.at("figure").text();
  std::size_t compared = 0;
  for (std::size_t c = 0; c < comparison_names.size(); ++c) {
    const TomlValue* operand = table.find(comparison_names[c]);
    if (operand == nullptr) continue;
    ++compared;
    test.comparison = static_cast<Comparison>(c);
    test.operand = operand->text("a string: a number as it is printed, or a figure's name");
    if (looks_like_number(test.operand))
      operand->naming_place([&] { return printed_number(test.operand); });
  }
  if (compared != 1)
    value.refuse(compared == 0 ? "no comparison" : "more than one comparison",
                 "one of equals, is, is_not, above, below, at_least, at_most");
  return test;
}

Claim read_claim(const TomlValue& value) {
  const TomlTable table(value, claim_keys);
  Claim claim;
  claim.place = value.place();
  claim.id = table.at("id").text();
  claim.text = table.at("claim").text();
  if (const TomlValue* note = table.find("note")) claim.note = note->text();
  if (const TomlValue* reason = table.find("not_run")) claim.not_run = reason->text();
  if (const TomlValue* runs = table.find("run"))
    for (const TomlValue& run : runs->list("[[claim.run]] tables"))
      claim.runs.push_back(read_run(run));
  if (const TomlValue* tests = table.find("test"))
    for (const TomlValue& test : tests->list("[[claim.test]] tables"))
      claim.tests.push_back(read_test(test));
  if (claim.not_run.empty() == (claim.runs.empty() || claim.tests.empty()))
    value.refuse(
        claim.not_run.empty() ? "nothing that decides it" : "a claim that is and is not run",
        "[[claim.run]] and [[claim.test]] tables, or not_run");
  return claim;
}

void require_new(const std::vector<Claim>& all, const Claim& claim) {
  for (const Claim& other : all)
    if (other.id == claim.id)
      throw InputError(claim.place, "claim " + claim.id + " is at " + other.place + " too",
                       "an identifier of its own");
}

}  // namespace

std::vector<Claim> read_claims(const std::string& path) {
  const toml::table file = detail::parse_toml(path);
  const TomlValue root(file, path, path);
  constexpr std::array<std::string_view, 1> known{"claim"};
  const TomlTable table(root, known);
  std::vector<Claim> claims;
  for (const TomlValue& value : table.at("claim").list("[[claim]] tables")) {
    Claim claim = read_claim(value);
    require_new(claims, claim);
    claims.push_back(std::move(claim));
  }
  return claims;
}

std::vector<Claim> read_claims(std::span<const std::string> paths) {
  std::vector<Claim> all;
  for (const std::string& path : paths)
    for (Claim& claim : read_claims(path)) {
      require_new(all, claim);
      all.push_back(std::move(claim));
    }
  std::sort(all.begin(), all.end(), [](const Claim& a, const Claim& b) { return a.id < b.id; });
  return all;
}

bool looks_like_number(std::string_view text) {
  return text == "inf" || (!text.empty() && (text.front() == '-' || text.front() == '.' ||
                                             (text.front() >= '0' && text.front() <= '9')));
}

Printed printed_number(std::string_view text) {
  double value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc{} || read.ptr != text.data() + text.size() || std::isnan(value))
    throw InputError("", detail::in_quotes(text), "a number such as 0.012 or 2.1e-4");
  if (std::isinf(value)) return {value, value, value};
  const std::size_t exponent = std::min(text.find_first_of("eE"), text.size());
  const std::size_t point = std::min(text.substr(0, exponent).find('.'), exponent);
  const std::int64_t digits =
      point == exponent ? 0 : static_cast<std::int64_t>(exponent - point - 1);
  std::int64_t power = 0;
  if (exponent < text.size()) {
    std::string_view rest = text.substr(exponent + 1);
    if (!rest.empty() && rest.front() == '+') rest.remove_prefix(1);
    std::from_chars(rest.data(), rest.data() + rest.size(), power);
  }
  // Units of the last place, read as numbers so that they are as exact as the number itself.
  const auto units = [&](char digit, std::int64_t exponent_of_ten) {
    std::string word(1, digit);
    word.append("e").append(std::to_string(exponent_of_ten));
    double width = 0;
    std::from_chars(word.data(), word.data() + word.size(), width);
    return width;
  };
  const double half = units('5', power - digits - 1), whole = units('1', power - digits);
  if (text.front() == '-') return {value, value - whole, value + half};
  return {value, value - half, value + whole};
}

}  // namespace opbound::claims
