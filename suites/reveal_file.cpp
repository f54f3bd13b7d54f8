#include "suites/reveal_file.hpp"

#include <nlohmann/json.hpp>

#include "reports/error.hpp"
#include "reports/json.hpp"
#include "suites/input_file.hpp"
#include "suites/run.hpp"

namespace opbound {
namespace {

using Json = nlohmann::ordered_json;

std::string name_of(Answer answer) {
  return answer == Answer::yes ? "yes" : answer == Answer::no ? "no" : "not asked";
}

constexpr int deepest_file = 8;  // the nodes of a tree need 4

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
                        {"variant", spec.op->variants[static_cast<std::size_t>(r.variant)].name},
                        {"fused", r.products != Products::rounded},
                        {"note", r.note}};
  }
  json["same_bits"] = {{"again", name_of(r.same_bits.again)},
                       {"unaligned", name_of(r.same_bits.unaligned)},
                       {"alone", name_of(r.same_bits.alone)}};
  return json.dump();
}

OrderFile read_order_file(const std::string& path) {
  InputFile file(path);
  const Json json = detail::parse_json<Json>(file.text(0, file.size()), deepest_file);
  OrderFile order;
  try {
    if (json.at("kind").get<std::string>() != "order") refuse(path, "no revealed order");
    if (!json.contains("tree")) refuse(path, "an order that was not found");
    if (!json.at("replayed").at("same_bits").get<bool>())
      throw InputError(path, "its order was not confirmed when it was revealed",
                       "a file of an order that was replayed");
    for (const auto& [key, to] : {std::pair{"op", &order.op},
                                  {"direction", &order.direction},
                                  {"part", &order.part},
                                  {"summed", &order.summed},
                                  {"precision", &order.precision}})
      *to = json.at(key).get<std::string>();
    order.variant = json.at("replayed").value("variant", "");
    order.tree.nodes = json.at("tree").at("nodes").get<std::vector<std::vector<std::int64_t>>>();
    const Json& leaves = json.at("tree").at("leaves");
    order.tree.leaves = leaves.is_number_integer() ? leaves.get<std::int64_t>() : 0;
  } catch (const Json::exception&) {
    refuse(path, "a revealed order with a part missing, or of another type");
  }
  std::int64_t leaves = 1;  // a node of k children joins k sums
  for (const auto& children : order.tree.nodes) leaves += std::ssize(children) - 1;
  if (order.tree.leaves != leaves || !is_sum_of_all(order.tree))
    refuse(path, "a tree that does not add every term once");
  return order;
}

void require_fit(const OrderFile& order, const std::string& path, const CaseSpec& spec) {
  const auto require = [&](std::string_view what, std::string_view has, std::string_view wants) {
    if (has != wants)
      throw InputError(path, "an order of " + std::string(what) + " " + std::string(has),
                       std::string(wants));
  };
  require("op", order.op, spec.op->name);
  require("direction", order.direction, name_of(spec.direction));
  require("precision", order.precision, name_of(spec.precision));
  const std::vector<int>& declared = spec.declared;
  if (!order.variant.empty() &&
      (declared.size() != 1 || declared.front() != spec.op->variant_named(order.variant)))
    throw InputError(path, "an order of variant " + order.variant,
                     "--variant " + order.variant + ", and no other");
  const auto dims = spec.op->dims;
  const auto place = std::find(dims.begin(), dims.end(), order.summed) - dims.begin();
  const std::int64_t terms =
      place == std::ssize(dims) ? 0 : spec.sizes[static_cast<std::size_t>(place)];
  require("so many terms:", std::to_string(order.tree.leaves), std::to_string(terms));
  for (const SumOfPass& sum :
       sums_of(*spec.op, spec.direction)) {  // else it would be used there too
    const auto tensors = spec.op->pass(spec.direction).tensors;
    const std::string_view part = tensors[static_cast<std::size_t>(sum.output)].name;
    if (part != order.part && spec.op->has_tensor(spec.attributes, part) &&
        spec.sizes[static_cast<std::size_t>(sum.dimension)] == terms)
      throw InputError(path,
                       "an order of " + order.part + ", which says nothing of " +
                           std::string(part) + ", a sum of as many terms",
                       "sums of different lengths");
  }
}

}  // namespace opbound
