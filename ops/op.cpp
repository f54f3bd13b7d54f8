#include "ops/op.hpp"

namespace opbound {

int Op::default_variant(const AttributeBytes& a) const {
  for (int v = 0; v < static_cast<int>(variants.size()); ++v)
    if (allows(a, v)) return v;
  detail::require(false, "no variant is allowed");
  return -1;
}

int Op::variant_named(std::string_view variant) const {
  for (std::size_t v = 0; v < variants.size(); ++v)
    if (variants[v].name == variant) return static_cast<int>(v);
  return -1;
}

const Op* find_op(std::string_view name) {
  for (const Op& op : all_ops())
    if (op.name == name) return &op;
  return nullptr;
}

}  // namespace opbound
