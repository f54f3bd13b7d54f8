// Logs of training runs, and the specs that they hold.
#include "distributed/trace/logged_spec.hpp"
#include "distributed/train/log.hpp"
#include "tests/fuzz/target.hpp"

namespace opbound::fuzz {

void training_log(Bytes input) {
  const std::string path = put("log.jsonl", input);
  reads([&] {
    for (const train::LoggedRun& run : train::read_training_log(path).runs) {
      require(!run.parts.empty(), "a run with a beginning");
      reads([&] { trace::logged_spec(run.first().spec, path); });
    }
  });
}

}  // namespace opbound::fuzz

OPBOUND_FUZZ_TARGET(training_log)
