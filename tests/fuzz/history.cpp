// Histories: a database that may be anything, then one that is ours.
#include "reports/run_store.hpp"
#include "tests/fuzz/target.hpp"

namespace opbound::fuzz {

void history(Bytes input) {
  const std::string path = put("h.sqlite", input);
  reads([&] {
    RunStore store(path, RunStore::Missing::refused);
    const std::vector<StoredRun> runs = store.runs();
    for (const StoredRun& run : runs) {
      reads([&] { store.for_each_line(run.name, [](std::string_view, long) {}); });
      reads([&] { store.records(run.name); });
      reads([&] { store.accept(run.name); });
    }
    store.accepted();
  });
  for (const char* end : {"", "-journal", "-wal", "-shm"}) std::filesystem::remove(path + end);
}

}  // namespace opbound::fuzz

OPBOUND_FUZZ_TARGET(history)
