// Traces of training runs: a database that may be anything, then one that is ours.
#include "distributed/trace/trace.hpp"

#include "tests/fuzz/target.hpp"

namespace opbound::fuzz {

void trace(Bytes input) {
  const std::string path = put("run.trace", input);
  using opbound::trace::TraceFile;
  reads([&] {
    TraceFile file(path, TraceFile::Open::read);
    reads([&] { file.head(); });
    reads([&] { file.parameters(); });
    reads([&] { file.calls(); });
    reads([&] { file.events(); });
    std::int64_t steps = 0;
    reads([&] {
      file.for_each_step([&](const opbound::trace::TraceStep& step) {
        reads([&] { file.bits(step.step); });
        return ++steps < 64;
      });
    });
    reads([&] { file.step(file.last_step()); });
  });
  for (const char* end : {"", "-journal", "-wal", "-shm"}) std::filesystem::remove(path + end);
}

}  // namespace opbound::fuzz

OPBOUND_FUZZ_TARGET(trace)
