#include "suites/reveal_file.hpp"

#include <fstream>
#include <nlohmann/json.hpp>

#include "reports/error.hpp"
#include "suites/run.hpp"

namespace opbound {
namespace {

using Json = nlohmann::ordered_json;

std::string name_of(Answer answer) {
  return answer == Answer::yes ? "yes" : answer == Answer::no ? "no" : "not asked";
}

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  throw InputError(path, what, "a file that `opbound reveal --out` wrote");
}

/// Every node but the last is a child once, and so is every leaf; children come before parents.
bool is_sum_of_all(const SumTree& tree) {
  const std::int64_t n = tree.leaves;
  std::vector<int> uses(static_cast<std::size_t>(n) + tree.nodes.size(), 0);
  for (std::size_t k = 0; k < tree.nodes.size(); ++k) {
    if (tree.nodes[k].size() < 2) return false;
    for (const std::int64_t child : tree.nodes[k]) {
      if (child < 0 || child >= n + static_cast<std::int64_t>(k)) return false;
      ++uses[static_cast<std::size_t>(child)];
    }
  }
  if (tree.nodes.empty()) return n == 1;
  return std::all_of(uses.begin(), uses.end() - 1, [](int u) { return u == 1; });
}

}  // namespace

std::string reveal_text(const CaseSpec& spec, const SumOfPass& sum, const Provider& provider,
                        const RevealedSum& r) {
  const Record common = record_of(spec, provider);
  Json json;
  json["schema"] = 1;
  json["kind"] = "order";
  json["op"] = common.op;
  json["direction"] = common.direction;
  json["part"] = spec.op->pass(spec.direction).tensors[static_cast<std::size_t>(sum.output)].name;
  json["summed"] = spec.op->dims[static_cast<std::size_t>(sum.dimension)];
  json["precision"] = common.precision;
  for (const auto& [name, value] : common.attributes)
    std::visit([&, key = name](const auto& v) { json["attributes"][key] = v; }, value);
  for (const auto& [name, size] : common.inputs.shape) json["shape"][name] = size;
  json["provider"] = common.provider;
  json["provider_version"] = common.provider_version;
  json["device"] = common.device;
  for (const auto& [name, value] : common.environment) json["environment"][name] = value;
  json["commit"] = common.commit;
  json["probes"] = r.found.calls;
  if (!r.found.refusal.empty()) json["refusal"] = r.found.refusal;
  if (r.found.refusal.empty()) {
    json["height"] = height(r.found.tree);
    json["tree"] = {{"leaves", r.found.tree.leaves}, {"nodes", r.found.tree.nodes}};
    json["replayed"] = {{"same_bits", r.is_replayed},
                        {"elements", r.replayed_elements},
                        {"fused", r.is_fused},
                        {"note", r.note}};
  }
  json["same_bits"] = {{"again", name_of(r.same_bits.again)},
                       {"unaligned", name_of(r.same_bits.unaligned)},
                       {"alone", name_of(r.same_bits.alone)}};
  return json.dump();
}

SumTree read_tree(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw InputError(path, "cannot be read", "a file that `opbound reveal --out` wrote");
  const Json json = Json::parse(file, nullptr, false);
  if (json.is_discarded() || !json.is_object() || json.value("kind", "") != "order")
    refuse(path, "no revealed order");
  if (!json.contains("tree")) refuse(path, "an order that was not found");
  SumTree tree;
  try {
    if (!json.at("replayed").at("same_bits").get<bool>())
      refuse(path, "a tree whose bits are not the kernel's");
    tree.leaves = json.at("tree").at("leaves").get<std::int64_t>();
    tree.nodes = json.at("tree").at("nodes").get<std::vector<std::vector<std::int64_t>>>();
  } catch (const Json::exception&) {
    refuse(path, "a tree with a part missing, or of another type");
  }
  const bool is_possible = tree.leaves >= 1 && std::ssize(tree.nodes) < tree.leaves;
  if (!is_possible || !is_sum_of_all(tree))
    refuse(path, "a tree that does not add every term once");
  return tree;
}

}  // namespace opbound
