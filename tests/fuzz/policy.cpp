// Policies, which may build on one another.
#include "distributed/train/policy.hpp"

#include "distributed/train/log.hpp"
#include "tests/fuzz/target.hpp"

namespace opbound::fuzz {

void policy(Bytes input) {
  put("base.toml", "master = \"fp32\"\n");
  const std::string path = put("tested.toml", input);
  reads([&] {
    const train::Policy read = train::read_policy(path);
    require(!train::json_of(read).dump().empty(), "a policy that a log takes");
    train::require_fits(read, train::model_named("nano"), path);
    for (const char* part : {"matmul", "head", "mlp:gelu", "adamw"}) read.rule(part, 0);
  });
}

}  // namespace opbound::fuzz

OPBOUND_FUZZ_TARGET(policy)
