// Part files of a run over ranks, which rank 0 puts together.
#include "distributed/shard.hpp"
#include "tests/fuzz/target.hpp"

namespace opbound::fuzz {

void rank_files(Bytes input) {
  const ShardName name{(scratch() / "run").string(), "job", 0, 2};
  const std::string text = text_of(input);
  const std::size_t half = text.size() / 2;
  put("run.rank0", "run job 0 2\n" + text.substr(0, half));
  put("run.rank1", "run job 1 2\n" + text.substr(half));
  reads([&] {
    for (const Record& record : merge_shards(name, 0).records)
      require(!to_json(record).empty(), "a record that can be written");
  });
}

}  // namespace opbound::fuzz

OPBOUND_FUZZ_TARGET(rank_files)
