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

Format tensor_format(const CaseSpec& spec, const TensorSpec& tensor) {
  std::string_view name = tensor.name;
  if (name.size() > 1 && name.front() == 'd') name.remove_prefix(1);
  for (const TensorSpec& t : spec.op->forward.tensors)
    if (t.name == name) return t.role == Role::out ? spec.precision.output : spec.precision.storage;
  return tensor.role == Role::out ? spec.precision.output : spec.precision.storage;
}

Shape tensor_shape(const CaseSpec& spec, const TensorSpec& tensor) {
  Shape shape;
  for (int axis = 0; axis < tensor.rank(); ++axis) {
    const auto dim = std::find(spec.op->dims.begin(), spec.op->dims.end(),
                               tensor.dims[static_cast<std::size_t>(axis)]);
    shape.push_back(spec.sizes[static_cast<std::size_t>(dim - spec.op->dims.begin())]);
  }
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
    std::move(cases.begin(), cases.end(), std::back_inserter(suite.cases));
  }
  if (suite.cases.empty()) table.at("case").refuse("no case", "at least one [[case]]");
  return suite;
}

}  // namespace opbound
