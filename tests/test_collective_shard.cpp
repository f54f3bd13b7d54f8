// A suite run over ranks: the records of one rank, whoever ran what, and whoever was lost.
#include <csignal>
#include <filesystem>
#include <optional>

#include "distributed/child.hpp"
#include "distributed/shard.hpp"
#include "reports/error.hpp"
#include "reports/history.hpp"
#include "tests/program.hpp"

namespace opbound {
namespace {

namespace fs = std::filesystem;

class Shard : public Program {
 protected:
  ShardName name(std::int32_t rank, std::int32_t ranks) const {
    return {path("parts"), "job", rank, ranks};
  }
  static Record record(const std::string& part) {
    Record r;
    r.op = "gelu";
    r.part = part;
    return r;
  }
  std::vector<std::string> parts_of(const Merged& merged) const {
    std::vector<std::string> parts;
    for (const Record& r : merged.records)
      parts.push_back(r.part + (r.verdict == Verdict::failed ? ": " + r.reason : ""));
    return parts;
  }
  std::string lines(const std::string& file) const {
    std::string text;
    for (Record& r : read_records(path(file))) {
      r.time_ms.reset();
      text += to_json(r) + "\n";
    }
    return text;
  }
};

TEST_F(Shard, records_come_in_the_order_of_one_rank) {
  for (std::int32_t rank : {1, 0, 2}) {
    ShardWriter part(name(rank, 3));
    for (std::size_t place = 0; rank == 0 && place < 7; ++place)
      part.announce(place, record("lost"));
    for (auto place = static_cast<std::size_t>(rank); place < 7; place += 3)
      part.write(place, {record(std::to_string(place)), record("again")});
    part.end();
  }
  const Merged merged = merge_shards(name(0, 3), 0);
  EXPECT_TRUE(merged.lost.empty());
  EXPECT_EQ(parts_of(merged),
            (std::vector<std::string>{"0", "again", "1", "again", "2", "again", "3", "again", "4",
                                      "again", "5", "again", "6", "again"}));
  EXPECT_FALSE(fs::exists(path("parts.rank0")));
}

TEST_F(Shard, ranks_meet_those_of_their_own_run_only) {
  std::optional<ShardMeeting> before(std::in_place, name(0, 2), "words", 0);
  const std::string old_run = before->name().run;
  EXPECT_EQ(ShardMeeting(name(1, 2), "words", 0).name().run, old_run);
  EXPECT_THROW(ShardMeeting(name(0, 2), "words", 0), InputError) << "two runs in one place";
  EXPECT_THROW(ShardMeeting(name(1, 2), "other words", 0), InputError);
  before.reset();
  put("parts.run", "job " + old_run.substr(4) + " 0\n");
  EXPECT_THROW(ShardMeeting(name(1, 2), "words", 0), InputError) << "what a dead run left";
  const ShardMeeting now(name(0, 2), "words", 0);
  EXPECT_NE(now.name().run, old_run);
  EXPECT_EQ(ShardMeeting(name(1, 2), "words", 0).name().run, now.name().run);
}

TEST_F(Shard, what_a_lost_rank_did_not_do_has_failed) {
  {
    ShardWriter first(name(0, 2));
    for (std::size_t place = 0; place < 4; ++place)
      first.announce(place, record(std::to_string(place)));
    first.write(0, {record("0")});
    first.write(2, {record("2")});
    first.end();
    ShardWriter second(name(1, 2));
    second.write(1, {record("1")});
  }  // before it ended
  const Merged merged = merge_shards(name(0, 2), 0);
  EXPECT_EQ(merged.lost, std::vector<std::int32_t>{1});
  EXPECT_EQ(parts_of(merged), (std::vector<std::string>{"0", "1", "2", "3: rank 1 was lost"}));
}

TEST_F(Shard, a_rank_that_never_came_is_lost_and_an_older_runs_file_is_not_its) {
  {
    ShardWriter first(name(0, 2));
    first.announce(0, record("0"));
    first.announce(1, record("1"));
    first.write(0, {record("0")});
    first.end();
    ShardName older = name(1, 2);
    older.run = "older";
    ShardWriter second(older);
    second.write(1, {record("older")});
    second.end();
  }
  EXPECT_EQ(parts_of(merge_shards(name(0, 2), 0.05)),
            (std::vector<std::string>{"0", "1: rank 1 was lost"}));
}

TEST_F(Shard, a_child_dies_alone) {
  EXPECT_EQ(in_child([] { return 7; }), 7);
  EXPECT_EQ(in_child([] { return std::raise(SIGKILL); }), 128 + SIGKILL);
}

/// Ranks as torchrun would start them; no MPI is needed.
TEST_F(Shard, a_run_over_ranks_has_the_records_of_one) {
  const std::string suite = std::string(OPBOUND_SOURCE_DIR) + "/suites/unscale.toml";
  ASSERT_EQ(opbound("run " + suite + " --out one.jsonl").code, 0);
  const Ran ran = shell(
      "for r in 2 1 0; do RANK=$r WORLD_SIZE=3 " OPBOUND_PROGRAM " run " + suite +
      " --out many.jsonl >out.$r & pids=\"$pids $!\"; done; for p in $pids; do wait $p || exit 9; "
      "done; cat out.2 out.1 out.0");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(lines("many.jsonl"), lines("one.jsonl"));
  EXPECT_EQ(ran.out, opbound("run " + suite).out);                   // rank 0's table alone
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 7);  // no part file is left
}

/// A rank whose part file may not grow dies in the middle of its work; the launcher does not see
/// it, the others go on, and what it had done counts.
TEST_F(Shard, a_rank_that_dies_leaves_its_cases_failed) {
  const std::string suite = std::string(OPBOUND_SOURCE_DIR) + "/suites/unscale.toml";
  const std::string program = OPBOUND_PROGRAM " run " + suite + " --quiet --out ";
  ASSERT_EQ(opbound("run " + suite + " --out one.jsonl").code, 0);
  const Ran ran = shell("(ulimit -f 8; RANK=1 WORLD_SIZE=2 " + program + "many.jsonl; " +
                        "echo $? >code) & RANK=0 WORLD_SIZE=2 " + program +
                        "many.jsonl; code=$?; wait; echo $(cat code) $code");
  EXPECT_TRUE(ran.out.ends_with("0 1\n")) << ran.out << ran.err;
  EXPECT_NE(ran.err.find("rank 1 of 2 was lost"), std::string::npos) << ran.err;
  std::size_t failed = 0, ran_through = 0;
  for (const Record& r : read_records(path("many.jsonl"))) {
    EXPECT_EQ(r.reason, r.verdict == Verdict::failed ? "rank 1 was lost" : "");
    ++(r.verdict == Verdict::failed ? failed : ran_through);
  }
  EXPECT_GT(failed, 0U);
  EXPECT_GT(ran_through, read_records(path("one.jsonl")).size() / 2);  // some of rank 1's too
}

TEST_F(Shard, mpirun_shards_a_run) {
  if (shell("command -v mpirun").code != 0) GTEST_SKIP() << "no mpirun";
  const std::string mpirun =
      "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 120 mpirun "
      "--oversubscribe -np 4 " OPBOUND_PROGRAM " run ";
  const std::string suite = std::string(OPBOUND_SOURCE_DIR) + "/suites/unscale.toml";
  ASSERT_EQ(opbound("run " + suite + " --out one.jsonl").code, 0);
  const Ran ran = shell(mpirun + suite + " --out many.jsonl");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(lines("many.jsonl"), lines("one.jsonl"));
  const Ran bad = shell(mpirun + "nothing.toml");
  EXPECT_EQ(bad.code, 2) << bad.err;
  EXPECT_EQ(bad.err.find("opbound: "), bad.err.rfind("opbound: ")) << bad.err;
}

}  // namespace
}  // namespace opbound
