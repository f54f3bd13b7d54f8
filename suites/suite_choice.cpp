#include <algorithm>
#include <array>

#include "suites/suggest.hpp"
#include "suites/suite_case.hpp"

namespace opbound::detail {
namespace {

constexpr std::array<std::string_view, 11> case_keys{
    "name",       "direction", "precision", "variant", "declare", "shape",
    "attributes", "input",     "seed",      "tier",    "vacuous"};
constexpr std::array<std::string_view, 3> tier_names{"quick", "full", "nightly"};

std::vector<Direction> read_directions(const TomlValue* value, const Op& op) {
  if (value == nullptr) return {Direction::forward};
  std::vector<Direction> all;
  for (const TomlValue& v : value->one_or_list()) {
    all.push_back(static_cast<Direction>(v.place_in(direction_names, "direction")));
    if (all.back() != Direction::forward && !op.backward)
      v.refuse(std::string(op.name) + " has no backward pass", "forward");
  }
  return all;
}

std::vector<Precision> read_precisions(const TomlValue& value, const Op& op) {
  constexpr std::string_view expected =
      "storage:compute:output or one format, of fp64 fp32 tf32 bf16 fp16 e4m3 e5m2";
  std::vector<Precision> all;
  for (const TomlValue& v : value.one_or_list()) {
    const std::string text = v.text(expected);
    const auto precision = precision_named(text);
    if (!precision) v.refuse("unknown precision '" + text + "'", expected);
    if (!has_kernel(precision->compute))
      v.refuse("no kernel computes in " + std::string(name_of(precision->compute)),
               "one of fp64, fp32, bf16, fp16");
    const std::string_view wanted = op.refuses_storage(precision->storage);
    if (!wanted.empty())
      v.refuse(std::string(op.name) + " of " + std::string(name_of(precision->storage)), wanted);
    all.push_back(*precision);
  }
  return all;
}

std::vector<AttributeBytes> read_attributes(const TomlValue* value, const Op& op) {
  std::vector<AttributeBytes> all{op.default_attributes};
  if (value == nullptr) return all;
  std::vector<std::string_view> names;
  for (const AttributeSpec& a : op.attributes) names.push_back(a.name);
  const TomlTable table(*value, names);
  for (const AttributeSpec& a : op.attributes) {
    const TomlValue* choices = table.find(a.name);
    if (choices == nullptr) continue;
    std::vector<AttributeBytes> longer;
    const std::vector<TomlValue> values = choices->one_or_list();
    if (all.size() * values.size() > most_checks) refuse_so_many(*choices);
    for (const AttributeBytes& begun : all)
      for (const TomlValue& v : values) {
        longer.push_back(begun);
        if (a.set(longer.back(), v.attribute(a.expected))) continue;
        if (!v.is_text()) v.refuse_type(a.expected);
        v.refuse("'" + v.text() + "'", a.expected);
      }
    all = std::move(longer);
  }
  return all;
}

std::vector<int> read_variants(const TomlValue& value, const Op& op) {
  std::vector<std::string_view> names;
  for (const Variant& v : op.variants) names.push_back(v.name);
  std::vector<int> all;
  for (const TomlValue& v : value.one_or_list())
    all.push_back(static_cast<int>(v.place_in(names, "variant")));
  return all;
}

/// A tensor's elements, up to one more than is allowed.
std::int64_t count_of(const Op& op, const Sizes& sizes, const TensorSpec& tensor) {
  std::int64_t count = 1;
  for (int axis = 0; axis < tensor.rank(); ++axis) {
    const auto dim =
        std::find(op.dims.begin(), op.dims.end(), tensor.dims[static_cast<std::size_t>(axis)]);
    const std::int64_t size = sizes[static_cast<std::size_t>(dim - op.dims.begin())];
    if (size != 0 && count > most_elements / size) return most_elements + 1;
    count *= size;
  }
  return count;
}

Sizes read_sizes(const TomlValue& value, const Op& op) {
  std::string expected =
      std::to_string(op.dims.size()) + (op.dims.size() == 1 ? " size:" : " sizes:");
  for (const std::string_view d : op.dims) expected.append(" ").append(d);
  const std::vector<TomlValue> list = value.list(expected);
  if (list.size() != op.dims.size())
    value.refuse(std::to_string(list.size()) + (list.size() == 1 ? " size" : " sizes"),
                 expected + "; several shapes are a list of lists");
  Sizes sizes{};
  for (std::size_t d = 0; d < list.size(); ++d) sizes[d] = list[d].whole(0, "a size of at least 0");
  const auto check = [&](const PassInfo& pass) {
    for (const TensorSpec& t : pass.tensors)
      if (count_of(op, sizes, t) > most_elements)
        value.refuse("tensor " + std::string(t.name) + " is too large",
                     "at most " + std::to_string(most_elements) + " elements");
  };
  check(op.forward);
  if (op.backward) check(*op.backward);
  return sizes;
}

std::vector<Sizes> read_shapes(const TomlValue& value, const Op& op) {
  const std::vector<TomlValue> list = value.list("a list of sizes, or a list of such lists");
  if (list.empty() || !list.front().is_list()) return {read_sizes(value, op)};
  std::vector<Sizes> all;
  for (const TomlValue& v : list) all.push_back(read_sizes(v, op));
  return all;
}

std::vector<std::string_view> tensors_of_all(const Op& op, std::span<const Direction> directions) {
  std::vector<std::string_view> longest;
  for (const Direction d : directions) {
    std::vector<std::string_view> names = input_tensors(op, d);
    if (names.size() > longest.size()) longest = std::move(names);
  }
  return longest;
}

CaseSpec read_common(const TomlTable& table, const SuiteContext& context) {
  CaseSpec common;
  common.op = context.op;
  common.suite = context.file;
  if (const TomlValue* v = table.find("name")) common.name = v->text();
  if (const TomlValue* v = table.find("tier"))
    common.tier = static_cast<Tier>(v->place_in(tier_names, "tier"));
  if (const TomlValue* v = table.find("vacuous")) {
    common.allowed_vacuous = v->text("the reason why a vacuous bound is no finding");
    if (common.allowed_vacuous.empty()) v->refuse("no reason", "the reason as text");
  }
  return common;
}

}  // namespace

std::vector<std::uint64_t> read_seeds(const TomlValue& value) {
  std::vector<std::uint64_t> all;
  for (const TomlValue& v : value.one_or_list())
    all.push_back(static_cast<std::uint64_t>(v.whole(0, "a whole number of at least 0")));
  return all;
}

CaseChoices read_choices(const TomlValue& value, const SuiteContext& context) {
  const Op& op = *context.op;
  const TomlTable table(value, case_keys);
  CaseChoices c;
  c.common = read_common(table, context);
  c.directions = read_directions(table.find("direction"), op);
  c.precisions = read_precisions(table.at("precision"), *context.op);
  c.attributes = read_attributes(table.find("attributes"), op);
  if (const TomlValue* v = table.find("variant")) c.variants = {read_variants(*v, op), *v};
  if (const TomlValue* v = table.find("declare")) c.declared = {read_variants(*v, op), *v};
  c.shape_key = table.at("shape");
  c.shapes = read_shapes(*c.shape_key, op);
  c.inputs = {{}};
  if (const TomlValue* v = table.find("input"))
    c.inputs = read_inputs(*v, tensors_of_all(op, c.directions), context.folder);
  c.seeds = context.seeds;
  if (const TomlValue* v = table.find("seed")) c.seeds = read_seeds(*v);
  return c;
}

}  // namespace opbound::detail
