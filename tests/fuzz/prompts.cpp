// Prompts of an evaluation.
#include "distributed/train/prompts.hpp"
#include "tests/fuzz/target.hpp"

namespace opbound::fuzz {

void prompts(Bytes input) {
  const std::string path = put("prompts.toml", input);
  reads([&] {
    for (const train::Prompt& prompt : train::read_prompts(path))
      require(!prompt.tokens.empty(), "a prompt with tokens");
  });
}

}  // namespace opbound::fuzz

OPBOUND_FUZZ_TARGET(prompts)
