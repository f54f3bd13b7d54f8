#include "suites/suite.hpp"

#include <algorithm>
#include <array>
#include <filesystem>

#include "suites/suggest.hpp"
#include "suites/suite_case.hpp"

namespace opbound {
namespace {

using detail::TomlTable;
using detail::TomlValue;

constexpr std::array<std::string_view, 3> suite_keys{"op", "seed", "case"};

const Op* read_op(const TomlValue& value, const std::filesystem::path& path) {
  const std::string name = value.text("the name of an op");
  std::vector<std::string_view> known;
  for (const Op& op : all_ops()) known.push_back(op.name);
  const Op* op = find_op(name);
  if (op == nullptr)
    value.refuse("unknown op " + detail::in_quotes_with_suggestion(name, known),
                 detail::one_of(known));
  if (path.stem() != name)
    value.refuse("op '" + name + "' in a suite of another name", "file " + name + ".toml");
  return op;
}

}  // namespace

namespace {

/// A word of TensorSpec::element.
Element element_named(const CaseSpec& spec, std::string_view word) {
  if (word == "storage") return element_of(spec.precision.storage);
  if (word == "compute") return element_of(spec.precision.compute);
  if (word == "output") return element_of(spec.precision.output);
  if (word == "int64") return Element::int64;
  if (word == "boolean") return Element::boolean;
  if (const auto format = format_named(word)) return element_of(*format);
  for (const AttributeSpec& a : spec.op->attributes)
    if (a.name == word)
      return element_of(format_named(std::get<std::string>(a.get(spec.attributes))).value());
  detail::require(false, "a tensor stored in nothing that there is");
  return {};
}

const TensorSpec* forward_tensor(const Op& op, std::string_view name) {
  for (const TensorSpec& t : op.forward.tensors)
    if (t.name == name) return &t;
  return nullptr;
}

}  // namespace

std::string_view stored_as(const Op& op, const TensorSpec& tensor) {
  if (!tensor.element.empty()) return tensor.element;
  if (tensor.role == Role::scratch) return "compute";
  std::string_view name = tensor.name;
  const TensorSpec* origin = forward_tensor(op, name);
  if (origin == nullptr && name.size() > 1 && name.front() == 'd')
    origin = forward_tensor(op, name.substr(1));
  if (origin == nullptr) origin = &tensor;
  if (!origin->element.empty()) return origin->element;
  return origin->role == Role::out ? "output" : "storage";
}

Element tensor_element(const CaseSpec& spec, const TensorSpec& tensor) {
  return element_named(spec, stored_as(*spec.op, tensor));
}

std::int64_t size_of(const CaseSpec& spec, std::string_view dim) {
  const auto& dims = spec.op->dims;
  const auto place = std::find(dims.begin(), dims.end(), dim);
  return spec.sizes[static_cast<std::size_t>(place - dims.begin())];
}

Shape tensor_shape(const CaseSpec& spec, const TensorSpec& tensor) {
  if (!spec.op->has_tensor(spec.attributes, tensor.name)) return {0};
  Shape shape;
  for (int axis = 0; axis < tensor.rank(); ++axis)
    shape.push_back(size_of(spec, tensor.dims[static_cast<std::size_t>(axis)]));
  return shape;
}

Suite read_suite(const std::string& path) {
  const std::filesystem::path file(path);
  const toml::table root = detail::parse_toml(path);
  const TomlTable table(TomlValue(root, path, "suite"), suite_keys);
  Suite suite{path, read_op(table.at("op"), file), {}};
  detail::SuiteContext context{
      suite.op, file.parent_path().string(), file.filename().string(), {CaseSpec{}.seed}};
  if (const TomlValue* v = table.find("seed")) context.seeds = detail::read_seeds(*v);
  for (const TomlValue& one : table.at("case").list("[[case]] tables")) {
    std::vector<CaseSpec> cases = detail::read_case(one, context);
    if (suite.cases.size() + cases.size() > detail::most_checks) detail::refuse_so_many(one);
    std::move(cases.begin(), cases.end(), std::back_inserter(suite.cases));
  }
  if (suite.cases.empty()) table.at("case").refuse("no case", "at least one [[case]]");
  return suite;
}

}  // namespace opbound
