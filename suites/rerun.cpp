#include "suites/rerun.hpp"

#include <algorithm>
#include <optional>

#include "reports/error.hpp"
#include "suites/input.hpp"

namespace opbound {
namespace {

std::string_view variant_name(const CaseSpec& spec, int variant) {
  return spec.op->variants[static_cast<std::size_t>(variant)].name;
}

bool declares_another(const CaseSpec& spec) {
  return spec.declared != std::vector<int>{spec.variant};
}

int read_variant(const Op& op, std::string_view name) {
  const int variant = op.variant_named(name);
  if (variant < 0)
    throw InputError("record", "unknown variant '" + std::string(name) + "'",
                     "one that `opbound list variants` prints");
  return variant;
}

/// "erfc|one_plus_erf, any order, ...": the names before the first comma.
std::vector<int> read_variants(const Op& op, std::string_view text) {
  std::vector<int> declared;
  std::string_view names = text.substr(0, text.find(','));
  while (!names.empty()) {
    const std::size_t end = std::min(names.find('|'), names.size());
    declared.push_back(read_variant(op, names.substr(0, end)));
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return declared;
}

AttributeBytes read_attributes(const Op& op, const Named<AttributeValue>& given) {
  AttributeBytes bytes = op.default_attributes;
  for (const auto& attribute : given) {
    const auto spec =
        std::find_if(op.attributes.begin(), op.attributes.end(),
                     [&](const AttributeSpec& a) { return a.name == attribute.first; });
    if (spec == op.attributes.end() || !spec->set(bytes, attribute.second))
      throw InputError("record", "attribute " + attribute.first + " = " + text_of(attribute.second),
                       spec == op.attributes.end() ? "an attribute of the op" : spec->expected);
  }
  return bytes;
}

Sizes read_sizes(const Op& op, const Named<std::int64_t>& shape) {
  Sizes sizes{};
  bool agrees = shape.size() == op.dims.size();
  for (std::size_t d = 0; agrees && d < shape.size(); ++d) {
    agrees = shape[d].first == op.dims[d] && shape[d].second >= 0;
    sizes[d] = shape[d].second;
  }
  if (!agrees) throw InputError("record", "a shape of other dimensions", "those of the op");
  return sizes;
}

/// Where " name=" of the next tensor begins; the text's end if none follows.
std::size_t next_input(std::string_view text, const Op& op) {
  std::size_t next = text.size();
  const auto look = [&](const PassInfo& pass) {
    for (const TensorSpec& t : pass.tensors)
      next = std::min(next, text.find(" " + std::string(t.name) + "="));
  };
  look(op.forward);
  if (op.backward) look(*op.backward);
  return next;
}

/// "x=normal(sigma=5) dy=file(dy.npy)"
std::vector<std::pair<std::string, InputSpec>> read_inputs(const Op& op, std::string_view text) {
  std::vector<std::pair<std::string, InputSpec>> inputs;
  while (!text.empty()) {
    const std::size_t end = next_input(text, op);
    const std::string_view one = text.substr(0, end);
    const std::size_t sign = std::min(one.find('='), one.size());
    inputs.emplace_back(one.substr(0, sign),
                        parse_input(one.substr(std::min(sign + 1, one.size()))));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return inputs;
}

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

/// What stands between the braces of an inline table.
template <class List, class Text>
std::string joined(const List& list, Text text) {
  std::string result;
  for (const auto& one : list) result.append(result.empty() ? "" : ", ").append(text(one));
  return result;
}

}  // namespace

std::string identity(const CaseSpec& spec) {
  std::string text(name_of(spec.direction));
  text += " " + name_of(spec.precision);
  for (const AttributeSpec& a : spec.op->attributes)
    text.append(" ").append(a.name).append("=").append(text_of(a.get(spec.attributes)));
  text.append(" ").append(variant_name(spec, spec.variant));
  if (declares_another(spec)) {
    text += " declare=";
    for (const int v : spec.declared)
      text.append(text.back() == '=' ? "" : "|").append(variant_name(spec, v));
  }
  for (std::size_t d = 0; d < spec.op->dims.size(); ++d)
    text.append(" ").append(spec.op->dims[d]).append("=").append(std::to_string(spec.sizes[d]));
  for (const auto& [tensor, input] : spec.inputs) text += " " + tensor + "=" + to_string(input);
  return text + " seed=" + std::to_string(spec.seed);
}

CaseSpec spec_of(const Record& record) {
  CaseSpec spec;
  spec.op = find_op(record.op);
  if (spec.op == nullptr)
    throw InputError("record", "unknown op '" + record.op + "'", "one that `opbound list` prints");
  const auto direction =
      std::find(direction_names.begin(), direction_names.end(), record.direction);
  const bool is_known = direction != direction_names.end() &&
                        (direction == direction_names.begin() || spec.op->backward);
  if (!is_known)
    throw InputError("record", "direction '" + record.direction + "'", "one that the op has");
  spec.direction = static_cast<Direction>(direction - direction_names.begin());
  const std::optional<Precision> precision = precision_named(record.precision);
  if (!precision)
    throw InputError("record", "precision '" + record.precision + "'", "storage:compute:output");
  spec.precision = *precision;
  spec.attributes = read_attributes(*spec.op, record.attributes);
  const std::vector<int> variants = read_variants(*spec.op, record.variant);
  if (variants.empty()) throw InputError("record", "no variant", "one of the op's");
  spec.variant = variants.front();  // of a kernel that is one of several, the first
  spec.declared = record.contract.empty() ? variants : read_variants(*spec.op, record.contract);
  spec.sizes = read_sizes(*spec.op, record.inputs.shape);
  spec.inputs = read_inputs(*spec.op, record.inputs.input);
  spec.seed = record.inputs.seed.value_or(spec.seed);
  spec.allowed_vacuous = record.allowed_vacuous;
  spec.suite = record.suite;
  return spec;
}

std::string suite_text(const CaseSpec& spec) {
  const Op& op = *spec.op;
  std::string text = "op = " + quoted(op.name) + "\n\n[[case]]\n";
  text += "direction = " + quoted(name_of(spec.direction)) + "\n";
  text += "precision = " + quoted(name_of(spec.precision)) + "\n";
  if (!op.attributes.empty())
    text += "attributes = {" +
            joined(op.attributes,
                   [&](const AttributeSpec& a) {
                     const AttributeValue value = a.get(spec.attributes);
                     const bool is_word = std::holds_alternative<std::string>(value);
                     return std::string(a.name) + " = " +
                            (is_word ? quoted(text_of(value)) : text_of(value));
                   }) +
            "}\n";
  text += "variant = " + quoted(variant_name(spec, spec.variant)) + "\n";
  if (declares_another(spec))
    text += "declare = [" +
            joined(spec.declared, [&](int v) { return quoted(variant_name(spec, v)); }) + "]\n";
  const std::vector<std::int64_t> sizes(
      spec.sizes.begin(), spec.sizes.begin() + static_cast<std::ptrdiff_t>(op.dims.size()));
  text +=
      "shape = [" + joined(sizes, [](std::int64_t size) { return std::to_string(size); }) + "]\n";
  if (!spec.inputs.empty())
    text += "input = {" +
            joined(spec.inputs,
                   [](const auto& input) {
                     return input.first + " = " + quoted(to_string(input.second));
                   }) +
            "}\n";
  return text + "seed = " + std::to_string(spec.seed) + "\n";
}

}  // namespace opbound
