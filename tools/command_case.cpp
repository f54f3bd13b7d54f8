#include "tools/command_case.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>

#include "reports/error.hpp"
#include "suites/suggest.hpp"
#include "suites/suite_case.hpp"
#include "suites/tensor_file.hpp"

namespace opbound {

const Op* read_op(const std::string& where, const std::string& name) {
  if (const Op* op = find_op(name)) return op;
  std::vector<std::string_view> known;
  for (const Op& op : all_ops()) known.push_back(op.name);
  throw InputError(where, "unknown op " + detail::in_quotes_with_suggestion(name, known),
                   detail::one_of(known));
}

AttributeValue value_of(const std::string& word) {
  if (word == "true" || word == "false") return word == "true";
  std::int64_t whole = 0;
  double number = 0;
  const char* end = word.data() + word.size();
  if (std::from_chars(word.data(), end, whole).ptr == end) return whole;
  if (std::from_chars(word.data(), end, number).ptr == end) return number;
  return word;
}

Precision read_precision(const std::string& text) {
  const std::optional<Precision> precision = precision_named(text);
  if (!precision)
    throw InputError("--precision", "'" + text + "'",
                     "storage:compute:output or one format, of fp64 fp32 tf32 bf16 fp16 e4m3 e5m2");
  if (!detail::has_kernel(precision->compute))
    throw InputError("--precision",
                     "no kernel computes in " + std::string(name_of(precision->compute)),
                     "one of fp64, fp32, bf16, fp16");
  return *precision;
}

namespace {
void set_attribute(CaseSpec& spec, const std::string& text) {
  std::vector<std::string_view> names;
  for (const AttributeSpec& a : spec.op->attributes) names.push_back(a.name);
  const std::size_t sign = text.find('=');
  const std::string name = text.substr(0, sign);
  const std::string expected =
      names.empty() ? "none: the op has no attributes" : "NAME=VALUE with " + detail::one_of(names);
  if (sign == std::string::npos)
    throw InputError("--attribute", detail::in_quotes(text) + " has no '='", expected);
  const auto at = std::find(names.begin(), names.end(), name) - names.begin();
  if (at == std::ssize(names))
    throw InputError("--attribute",
                     "unknown attribute " + detail::in_quotes_with_suggestion(name, names),
                     expected);
  const AttributeSpec& attribute = spec.op->attributes[static_cast<std::size_t>(at)];
  if (!attribute.set(spec.attributes, value_of(text.substr(sign + 1))))
    throw InputError("--attribute", "'" + text + "'", attribute.expected);
}

}  // namespace

void set_attributes(CaseSpec& spec, const std::vector<std::string>& texts) {
  std::vector<std::string> names;
  for (const std::string& text : texts) {
    set_attribute(spec, text);
    const std::string name = text.substr(0, text.find('='));
    if (std::find(names.begin(), names.end(), name) != names.end())
      throw InputError("--attribute", name + " is given twice", "one value of an attribute");
    names.push_back(name);
  }
}

std::vector<int> read_variants(const CaseSpec& spec, const std::vector<std::string>& named) {
  std::vector<int> variants;
  std::vector<std::string_view> allowed;
  for (std::size_t v = 0; v < spec.op->variants.size(); ++v) {
    const std::string_view name = spec.op->variants[v].name;
    const auto place = static_cast<int>(v);
    if (!spec.op->allows(spec.attributes, place) || !spec.op->fits(spec.precision, place)) continue;
    allowed.push_back(name);
    const bool is_assumed = named.empty() && spec.op->is_assumed(spec.precision, place);
    if (is_assumed || std::find(named.begin(), named.end(), name) != named.end())
      variants.push_back(place);
  }
  for (const std::string& name : named)
    if (std::find(allowed.begin(), allowed.end(), name) == allowed.end())
      throw InputError("--variant",
                       "variant " + detail::in_quotes_with_suggestion(name, allowed) +
                           " is unknown or not allowed by the attributes",
                       detail::one_of(allowed));
  if (allowed.empty())
    throw InputError("--attribute", "no variant of " + std::string(spec.op->name) + " has these",
                     "attributes and a precision that one of its variants allows");
  if (variants.empty())
    throw InputError("--variant", "none is assumed at this precision", detail::one_of(allowed));
  return variants;
}

void add_case_options(CLI::App& command, CaseWords& words) {
  command
      .add_option("--precision", words.precision,
                  "storage:compute:output, such as bf16:fp32:bf16; one format if all agree")
      ->required();
  command.add_option("--direction", words.direction, "Which pass of the op")
      ->check(CLI::IsMember({"forward", "backward_local", "backward_full"}))
      ->capture_default_str();
  command
      .add_option("--attribute", words.attributes, "Attributes of the op that are not its defaults")
      ->type_name("NAME=VALUE");
  command
      .add_option("--variant", words.variants,
                  "The algorithm, if known; else it is any that the attributes allow")
      ->type_name("NAME");
}

CaseSpec read_case(const std::string& where, const CaseWords& words) {
  CaseSpec spec;
  spec.op = read_op(where, words.op);
  spec.direction = static_cast<Direction>(
      std::find(direction_names.begin(), direction_names.end(), words.direction) -
      direction_names.begin());
  if (spec.direction != Direction::forward && !spec.op->backward)
    throw InputError("--direction", words.op + " has no backward pass", "forward");
  spec.precision = read_precision(words.precision);
  const std::string_view wanted = spec.op->refuses_storage(spec.precision.storage);
  if (!wanted.empty())
    throw InputError("--precision",
                     words.op + " of " + std::string(name_of(spec.precision.storage)),
                     std::string(wanted));
  spec.attributes = spec.op->default_attributes;
  set_attributes(spec, words.attributes);
  spec.declared = read_variants(spec, words.variants);
  spec.variant = spec.declared.front();
  return spec;
}

std::string tensor_text(const TensorSpec& tensor) {
  std::string text(tensor.name);
  for (int axis = 0; axis < tensor.rank(); ++axis)
    text.append(axis == 0 ? "[" : ", ").append(tensor.dims[static_cast<std::size_t>(axis)]);
  return text + (tensor.rank() > 0 ? "]" : "");
}

std::string format_origin(const Op& op, const TensorSpec& tensor) {
  const std::string_view word = stored_as(op, tensor);
  for (const char* choice : {"storage", "compute", "output"})
    if (word == choice) return "the " + std::string(word) + " format";
  const bool is_attribute = std::any_of(op.attributes.begin(), op.attributes.end(),
                                        [&](const AttributeSpec& a) { return a.name == word; });
  return is_attribute ? "attribute " + std::string(word) : "always";
}

}  // namespace opbound
