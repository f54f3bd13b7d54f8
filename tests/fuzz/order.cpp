// Files of revealed orders.
#include "bounds/reveal.hpp"
#include "suites/reveal_file.hpp"
#include "tests/fuzz/target.hpp"

namespace opbound::fuzz {

void order(Bytes input) {
  const std::string path = put("order.json", input);
  reads([&] {
    const OrderFile read = read_order_file(path);
    require(read.tree.leaves > 0, "a tree with terms");
    require(height(read.tree) < read.tree.leaves, "a tree that adds each term once");
  });
}

}  // namespace opbound::fuzz

OPBOUND_FUZZ_TARGET(order)
