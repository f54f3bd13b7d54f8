// The key `input` of a case.
#include <algorithm>
#include <filesystem>

#include "suites/input.hpp"
#include "suites/suite_case.hpp"

namespace opbound::detail {
namespace {

/// {kind = "normal", sigma = 5}, {kind = "file", path = "x.safetensors", tensor = "h"}
InputSpec read_table(const TomlValue& value) {
  InputSpec spec;
  spec.kind.clear();
  for (const auto& [key, entry] : value.entries()) {
    if (key == "kind")
      spec.kind = entry.text();
    else if (key == "path")
      spec.path = entry.text();
    else if (key == "tensor")
      spec.tensor = entry.text();
    else if (key == "layout")
      spec.layout = parse_input("normal @" + entry.text()).layout;
    else
      spec.parameters.emplace_back(key, entry.number());
  }
  if (spec.kind.empty()) value.refuse("no kind", "key kind");
  value.naming_place([&] { normalize(spec); });
  return spec;
}

InputSpec read_spec(const TomlValue& value, const std::string& folder) {
  InputSpec spec;
  if (value.is_table()) {
    spec = read_table(value);
  } else {
    const std::string text = value.text("a generator, as a string or as a table");
    spec = value.naming_place([&] { return parse_input(text); });
  }
  if (!spec.path.empty())
    spec.path = (std::filesystem::path(folder) / spec.path).lexically_normal().string();
  return spec;
}

/// Every way to choose one generator for each tensor of one table.
std::vector<GivenInputs> read_choices(const TomlValue& table,
                                      std::span<const std::string_view> known,
                                      const std::string& folder) {
  const TomlTable tensors(table, known);
  std::vector<GivenInputs> all{{}};
  for (const std::string_view tensor : known) {
    const TomlValue* value = tensors.find(tensor);
    if (value == nullptr) continue;
    std::vector<GivenInputs> longer;
    const std::vector<TomlValue> ways = value->one_or_list();
    if (all.size() * ways.size() > most_checks) refuse_so_many(*value);
    for (const GivenInputs& begun : all)
      for (const TomlValue& one : ways) {
        longer.push_back(begun);
        longer.back().push_back({std::string(tensor), read_spec(one, folder), one});
      }
    all = std::move(longer);
  }
  return all;
}

}  // namespace

std::vector<std::string_view> input_tensors(const Op& op, Direction direction) {
  std::vector<std::string_view> names;
  const auto add = [&](const PassInfo& pass) {
    for (const TensorSpec& t : pass.tensors)
      if (!t.is_written() && t.role != Role::saved &&
          std::find(names.begin(), names.end(), t.name) == names.end())
        names.push_back(t.name);
  };
  add(op.forward);
  if (direction != Direction::forward) add(*op.backward);
  return names;
}

std::vector<GivenInputs> read_inputs(const TomlValue& value,
                                     std::span<const std::string_view> known,
                                     const std::string& folder) {
  std::vector<GivenInputs> all;
  for (const TomlValue& table : value.one_or_list()) {
    std::vector<GivenInputs> more = read_choices(table, known, folder);
    if (all.size() + more.size() > most_checks) refuse_so_many(value);
    std::move(more.begin(), more.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace opbound::detail
