// suites/worst/<op>.txt: TOML whose numbers are hexadecimal words.
#include <fmt/format.h>

#include <filesystem>
#include <limits>

#include "reports/record.hpp"
#include "suites/suite_toml.hpp"
#include "suites/worst.hpp"

namespace opbound {
namespace {

using detail::TomlTable;
using detail::TomlValue;

std::string values_text(const Tensor& tensor) {
  std::string text = "[";
  std::string line;
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    std::string word = is_float(tensor.element()) ? "\"" + hexadecimal(tensor.at(i)) + "\""
                                                  : std::to_string(tensor.index_at(i));
    if (line.size() + word.size() > 96) {
      text += line + "\n";
      line.clear();
    }
    line += word + (i + 1 < tensor.count() ? ", " : "");
  }
  return text + line + "]";
}

std::string case_text(const WorstCase& c) {
  const CaseSpec& spec = c.spec;
  std::string text = "\n[[case]]\n";
  text += fmt::format("direction = \"{}\"\nprecision = \"{}\"\nvariant = \"{}\"\nshape = [",
                      name_of(spec.direction), name_of(spec.precision),
                      spec.op->variants[static_cast<std::size_t>(spec.variant)].name);
  for (std::size_t d = 0; d < spec.op->dims.size(); ++d)
    text += (d > 0 ? ", " : "") + std::to_string(spec.sizes[d]);
  text +=
      fmt::format("]\nevaluations = {}\nbefore = {}\nafter = {}\noutput = \"{}\"\n[case.input]\n",
                  c.evaluations, "\"" + hexadecimal(c.before) + "\"",
                  "\"" + hexadecimal(c.found.ratio) + "\"", c.found.output);
  for (const auto& [name, tensor] : c.inputs) text += name + " = " + values_text(tensor) + "\n";
  return text;
}

double number_of(const TomlValue& value) {
  const auto x = parse_hexadecimal(value.text("a hexadecimal number such as \"-0x1.8p-3\""));
  if (!x) value.refuse("'" + value.text() + "'", "a hexadecimal number such as \"-0x1.8p-3\"");
  return *x;
}

Tensor tensor_of(const TomlValue& value, const CaseSpec& spec, const TensorSpec& t) {
  Tensor tensor(tensor_element(spec, t), tensor_shape(spec, t));
  const std::vector<TomlValue> values = value.list("a list of numbers");
  if (std::cmp_not_equal(values.size(), tensor.count()))
    value.refuse(std::to_string(values.size()) + " values", std::to_string(tensor.count()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto place = static_cast<std::int64_t>(i);
    if (is_float(tensor.element())) {
      const double x = number_of(values[i]);
      tensor.set(place, x);
      if (tensor.at(place) != x && x == x)
        values[i].refuse("'" + values[i].text() + "'", "a value that the tensor's format holds");
    } else {
      store_index(tensor.element(), tensor.bytes().data(), place,
                  values[i].whole(std::numeric_limits<std::int64_t>::min(), "a whole number"));
    }
  }
  return tensor;
}

const TensorSpec* tensor_named(const Op& op, std::string_view name) {
  for (const TensorSpec& t : op.forward.tensors)
    if (t.name == name) return &t;
  if (op.backward)
    for (const TensorSpec& t : op.backward->tensors)
      if (t.name == name) return &t;
  return nullptr;
}

WorstCase case_of(const TomlValue& entry, const Op& op) {
  static constexpr std::string_view keys[] = {"direction", "precision",   "variant",
                                              "shape",     "evaluations", "before",
                                              "after",     "output",      "input"};
  const TomlTable table(entry, keys);
  WorstCase c;
  CaseSpec& spec = c.spec;
  spec.op = &op;
  spec.attributes = op.default_attributes;
  spec.direction =
      static_cast<Direction>(table.at("direction").place_in(direction_names, "direction"));
  const auto precision = precision_named(table.at("precision").text());
  if (!precision) table.at("precision").refuse("no precision", "storage:compute:output");
  spec.precision = *precision;
  spec.variant = op.variant_named(table.at("variant").text());
  if (spec.variant < 0) table.at("variant").refuse("no variant of the op", "one of `opbound list`");
  spec.declared = {spec.variant};
  const auto shape = table.at("shape").list("a list of sizes");
  if (shape.size() != op.dims.size())
    table.at("shape").refuse("another number of sizes", std::to_string(op.dims.size()));
  for (std::size_t d = 0; d < shape.size(); ++d) spec.sizes[d] = shape[d].whole(0, "a size");
  c.evaluations = static_cast<std::uint64_t>(table.at("evaluations").whole(0, "a count"));
  c.before = number_of(table.at("before"));
  c.found.ratio = number_of(table.at("after"));
  c.found.output = table.at("output").text();
  for (const auto& [name, value] : table.at("input").entries()) {
    const TensorSpec* t = tensor_named(op, name);
    if (t == nullptr) value.refuse("no tensor of the op", "an input");
    c.inputs.emplace(name, tensor_of(value, spec, *t));
    spec.inputs.emplace_back(name, InputSpec{});
  }
  return c;
}

}  // namespace

std::string worst_file_text(std::string_view command, const std::vector<WorstCase>& cases) {
  std::string text = fmt::format(
      "# Made by `{}`, never edited.\n"
      "# before: error over bound of the suite's own inputs; after: of these.\n",
      command);
  for (const WorstCase& c : cases) text += case_text(c);
  return text;
}

std::vector<WorstCase> read_worst_file(const std::string& path) {
  const std::string name = std::filesystem::path(path).stem().string();
  const Op* op = find_op(name);
  if (op == nullptr) throw InputError(path, "'" + name + "' is no operator", "OP.txt");
  const toml::table root = detail::parse_toml(path);
  static constexpr std::string_view file_keys[] = {"case"};
  const TomlTable file(TomlValue(root, path, "the file"), file_keys);
  std::vector<WorstCase> cases;
  for (const TomlValue& entry : file.at("case").list("a list of tables"))
    cases.push_back(case_of(entry, *op));
  return cases;
}

}  // namespace opbound
