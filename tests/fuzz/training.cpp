// Specs of training runs.
#include "distributed/train/log.hpp"
#include "distributed/train/training_spec.hpp"
#include "tests/fuzz/target.hpp"

namespace opbound::fuzz {

void training(Bytes input) {
  put("own.toml", "master = \"fp32\"\n");
  const std::string path = put("run.toml", input);
  reads([&] {
    const train::TrainingSpec spec = train::read_training(path);
    require(!train::json_of(spec).dump().empty(), "a spec that a log takes");
    train::learning_rate(spec.schedule, spec.steps - 1, spec.steps);
  });
}

}  // namespace opbound::fuzz

OPBOUND_FUZZ_TARGET(training)
