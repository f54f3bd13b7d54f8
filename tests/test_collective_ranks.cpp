// opbound collective over ranks of mpirun, and of processes as torchrun starts them.
#include <algorithm>
#include <filesystem>

#include "reports/history.hpp"
#include "tests/program.hpp"

namespace opbound {
namespace {

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

class ProgramMpi : public Program {
 protected:
  void SetUp() override {
    Program::SetUp();
    const auto folder = std::filesystem::path(OPBOUND_PROGRAM).parent_path();
    if (!std::filesystem::exists(folder / "libopbound_mpi.so")) GTEST_SKIP() << "built without MPI";
    if (shell("command -v mpirun").code != 0) GTEST_SKIP() << "no mpirun";
  }
  Ran mpirun(int ranks, const std::string& words, const std::string& options = "") const {
    return shell(
        "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 120 mpirun "
        "--oversubscribe " +
        options + " -np " + std::to_string(ranks) + " " OPBOUND_PROGRAM " " + words);
  }
  std::vector<std::string> hashes(int ranks, const std::string& words,
                                  const std::string& options = "") const {
    std::filesystem::remove(path("h.jsonl"));
    const Ran ran = mpirun(ranks, words + " --out h.jsonl", options);
    EXPECT_EQ(ran.code, 0) << ran.out << ran.err;
    std::vector<std::string> found;
    for (const Record& r : read_records(path("h.jsonl")))
      if (!r.output_hash.empty()) found.push_back(r.output_hash);
    return found;
  }
};

TEST_F(ProgramMpi, four_processes_pass_every_check) {
  const Ran ran = mpirun(4, "collective --size 61 --out r.jsonl --attribute reduction=mean");
  EXPECT_EQ(ran.code, 0) << ran.out << ran.err;
  EXPECT_TRUE(contains(ran.out, "exceeds 0, failed 0")) << ran.out;
  const std::vector<Record> records = read_records(path("r.jsonl"));
  EXPECT_GT(records.size(), 100U);  // those of rank 0 alone
  for (const Record& r : records) EXPECT_EQ(r.provider, "mpi");
}

/// Simulated ranks are not another program: MPI gives their bits.
TEST_F(ProgramMpi, its_bits_are_those_of_simulated_ranks) {
  const std::string words = "collective all_reduce --size 61 --ranks 4";
  const auto simulated = hashes(1, words + " --engine simulated");
  EXPECT_EQ(hashes(4, words), simulated);
  EXPECT_GT(simulated.size(), 4U);
}

/// Transport and placement change no bit where the order is fixed.
TEST_F(ProgramMpi, transports_change_no_bit) {
  const std::string words = "collective all_reduce --size 61 --order balanced_tree --order ring";
  const auto usual = hashes(4, words);
  EXPECT_EQ(hashes(4, words, "--mca btl self,tcp"), usual);
  EXPECT_EQ(hashes(4, words, "--mca btl_vader_eager_limit 128"), usual);
  EXPECT_EQ(hashes(4, words, "--map-by slot --bind-to none"), usual);
  EXPECT_EQ(hashes(4, words + " --timeout 30"), usual);
}

TEST_F(ProgramMpi, the_librarys_own_is_judged_in_any_order) {
  for (const char* algorithm : {"0", "3", "4"}) {  // its choice, recursive doubling, ring
    const Ran ran = mpirun(3,
                           "collective --engine mpi_library --size 1000 --precision fp32 "
                           "--precision bf16 --precision fp64",
                           std::string("--mca coll_tuned_use_dynamic_rules 1 "
                                       "--mca coll_tuned_allreduce_algorithm ") +
                               algorithm);
    EXPECT_EQ(ran.code, 0) << ran.out << ran.err;
    EXPECT_TRUE(contains(ran.out, "exceeds 0, failed 0")) << ran.out;
  }
}

/// Two terms of 8 bits have one sum; of more ranks the library adds the wider format.
TEST_F(ProgramMpi, eight_bits_are_summed) {
  const std::string formats = " --precision e4m3:fp16:e4m3 --precision e5m2:fp32:e5m2";
  for (const int ranks : {2, 3})
    for (const char* engine : {"mpi_library", "mpi --attribute hop=output"}) {
      const Ran ran = mpirun(ranks, "collective --size 61 --engine " + (engine + formats));
      EXPECT_EQ(ran.code, 0) << ran.out << ran.err;
      EXPECT_TRUE(contains(ran.out, "exceeds 0, failed 0")) << ran.out;
    }
}

/// Open MPI's ranks write to terminals; what mpirun writes to is none here.
TEST_F(ProgramMpi, no_colour_reaches_a_file) {
  const Ran ran = mpirun(2, "collective all_reduce --size 8 --order ring --precision fp32");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_FALSE(contains(ran.out, "\x1b[")) << ran.out;
  EXPECT_TRUE(contains(ran.out, "ms on the rank that came last")) << ran.out;
}

/// Which ranks of Open MPI's recursive doubling meet first, and where its ring begins.
TEST_F(ProgramMpi, the_librarys_order_is_found) {
  const auto order = [&](const char* algorithm) {
    return mpirun(5,
                  "collective all_reduce --engine mpi_library --size 61 --precision fp32 --reveal",
                  std::string("--mca coll_tuned_use_dynamic_rules 1 "
                              "--mca coll_tuned_allreduce_algorithm ") +
                      algorithm)
        .out;
  };
  const std::string doubling = order("3"), ring = order("4");
  EXPECT_TRUE(contains(doubling,
                       "first element's order ((0..2)+(3+4)), of no schedule here; "
                       "replayed, every bit of 488 elements"))
      << doubling;
  EXPECT_TRUE(contains(ring, "as ring")) << ring;
  EXPECT_TRUE(contains(ring, "not that of every element")) << ring;
}

/// What is run again is told with its launcher; a library's order is not run again here.
TEST_F(ProgramMpi, explain_prints_the_command_of_real_ranks) {
  const std::string words = "collective reduce_scatter --size 61 --precision fp32 --quiet --out ";
  ASSERT_EQ(mpirun(3, words + "r.jsonl").code, 0);
  ASSERT_EQ(mpirun(3, words + "l.jsonl --engine mpi_library").code, 0);
  EXPECT_TRUE(contains(opbound("explain r.jsonl:1").out,
                       "  mpirun -np 3 opbound collective reduce_scatter --engine mpi --order ring "
                       "--precision fp32 "));
  const Ran library = opbound("explain l.jsonl:1");
  EXPECT_EQ(library.code, 0) << library.err;
  EXPECT_TRUE(contains(library.out,
                       "  mpirun -np 3 opbound collective reduce_scatter --engine mpi_library "
                       "--precision fp32 "))
      << library.out;
}

/// Rank 0 judges a million elements; rank 1, which waits meanwhile, gives up and takes it along.
TEST_F(ProgramMpi, a_rank_that_does_not_come_is_not_waited_for_forever) {
  const std::string words =
      "collective all_reduce --order ring --precision fp32 --size 1000000 --quiet ";
  EXPECT_EQ(mpirun(2, words).code, 0);
  const int code = mpirun(2, words + "--timeout 0.02").code;
  EXPECT_NE(code, 0);
  EXPECT_NE(code, 124);  // of `timeout`
}

TEST_F(ProgramMpi, bad_use_is_told_by_one_rank) {
  const Ran ran = mpirun(3, "collective --order rong");
  EXPECT_NE(ran.code, 0);
  const std::size_t first = ran.err.find("opbound: --order");
  EXPECT_NE(first, std::string::npos) << ran.err;
  EXPECT_EQ(ran.err.find("opbound: --order", first + 1), std::string::npos) << ran.err;
}

TEST_F(ProgramMpi, ranks_that_do_not_know_one_another_are_no_run) {
  const Ran ran = shell("RANK=1 WORLD_SIZE=4 " OPBOUND_PROGRAM " collective --engine mpi");
  EXPECT_EQ(ran.code, 1);
  EXPECT_TRUE(contains(ran.out, "torchrun started 4 ranks, of which mpi knows 1")) << ran.out;
}

/// What ranks were told differs: they end at once, and one of them says so.
TEST_F(ProgramMpi, ranks_that_were_told_different_things_are_no_run) {
  const auto two = [&](const std::string& zero, const std::string& one) {
    return shell(
        "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 60 mpirun "
        "--oversubscribe -np 1 " OPBOUND_PROGRAM " " +
        zero + " : -np 1 " OPBOUND_PROGRAM " " + one);
  };
  for (const char* other : {"--size 62", "--size 61 --seed 2", "--size 61 --precision bf16"}) {
    const Ran ran =
        two("collective --size 61 --out r.jsonl", std::string("collective --out r.jsonl ") + other);
    EXPECT_NE(ran.code, 0);
    EXPECT_NE(ran.code, 124) << "of `timeout`";
    EXPECT_EQ(ran.out, "");
    EXPECT_TRUE(contains(ran.err,
                         "opbound: rank 1: other words, settings or versions than rank 0 has, "
                         "expected the same command on every rank\n"))
        << ran.err;
    EXPECT_FALSE(std::filesystem::exists(path("r.jsonl")));
  }
}

/// Whichever rank finds that the file is another run's: all end.
TEST_F(ProgramMpi, two_runs_do_not_share_a_file) {
  put("r.jsonl", "");
  for (const char* words : {"collective --size 61", "run --case none"}) {
    const Ran ran = shell(
        "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; flock r.jsonl timeout "
        "60 mpirun --oversubscribe -np 2 " OPBOUND_PROGRAM " " +
        std::string(words) + " --out r.jsonl");
    EXPECT_NE(ran.code, 0) << words;
    EXPECT_NE(ran.code, 124) << "of `timeout`";
    EXPECT_EQ(ran.out, "") << words;
    EXPECT_TRUE(contains(ran.err, "opbound: r.jsonl: another run is writing its records here"))
        << ran.err;
  }
}

// ---- ranks as torchrun starts them

class ProgramTcp : public Program {
 protected:
  /// Rank 3 first, rank 0 last.
  Ran ranks(const std::string& words) const {
    return shell(
        "export WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + $$ % 20000)); "
        "for r in 3 2 1 0; do RANK=$r LOCAL_RANK=$r " OPBOUND_PROGRAM " " +
        words +
        " >rank$r.out 2>rank$r.err & last=$!; done; wait $last; code=$?; wait; "
        "cat rank*.out; cat rank*.err >&2; exit $code");
  }
};

TEST_F(ProgramTcp, sockets_give_the_bits_of_simulated_ranks) {
  const std::string words = "collective --size 61 --attribute reduction=mean";
  const Ran ran = ranks(words + " --out tcp.jsonl");
  EXPECT_EQ(ran.code, 0) << ran.out << ran.err;
  EXPECT_EQ(opbound(words + " --ranks 4 --engine simulated --out simulated.jsonl").code, 0);
  const auto hashes = [&](const char* file, std::string_view engine) {
    std::string all;
    for (const Record& r : read_records(path(file))) {
      EXPECT_EQ(r.provider, engine);
      all += r.output_hash;
    }
    return all;
  };
  EXPECT_EQ(hashes("tcp.jsonl", "tcp"), hashes("simulated.jsonl", "simulated"));
}

// ---- a training run's ranks: a rank that does not come, or goes, ends the others

class ProgramTrainRanks : public Program {
 protected:
  void SetUp() override {
    Program::SetUp();
    std::string text;
    for (int i = 0; i < 400; ++i) text += "the cat sat on mat " + std::to_string(i % 7) + ".\n";
    put("text.txt", text);
    put("tiny.toml",
        "policy = \"fp32-reproducible\"\ndata = \"text.txt\"\nsteps = 1000000\nmicro_batches = "
        "4\nsequences = 1\n[schedule]\nlr = 1e-2\n[model]\nlayers = 1\nheads = 2\nwidth = "
        "16\ncontext = 8\n");
  }
  /// Ranks 0, 1 and 3 of four, and rank 2 if it is to `come`; once the log has step 3, rank 2 gets
  /// the signal. Gives what the three printed, once all of them have ended.
  Ran ranks(bool comes, const std::string& signal) const {
    const std::string come = comes ? "0 1 2 3" : "0 1 3";
    const std::string wait_and_signal =
        "until grep -q '\"step\":3,' log.jsonl 2>/dev/null; do sleep 0.02; done; kill -" + signal +
        " $p2; ";
    return shell(
        "export OPBOUND_TIMEOUT=2 WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + $$ % "
        "20000)); for r in " +
        come +
        "; do RANK=$r LOCAL_RANK=$r " OPBOUND_PROGRAM
        " train tiny.toml --quiet --log log.jsonl 2>rank$r.err & eval p$r=$!; done; " +
        (comes ? wait_and_signal : "") +
        "codes=; for p in $p0 $p1 $p3; do timeout 30 tail --pid=$p -f /dev/null; wait $p; "
        "codes=$codes$?; done; " +
        (comes ? "kill -KILL $p2 2>/dev/null; " : "") + "echo $codes; cat rank[013].err");
  }
};

TEST_F(ProgramTrainRanks, ARankThatIsKilledEndsTheOthers) {
  const Ran ran = ranks(true, "KILL");
  EXPECT_TRUE(ran.out.starts_with("111\n")) << ran.out;
  EXPECT_EQ(std::ranges::count(ran.out, '\n'), 1 + 3) << ran.out;
  EXPECT_TRUE(contains(ran.out, " rank 2: ")) << ran.out;
  EXPECT_TRUE(contains(get("log.jsonl"), "\"verdict\":\"failed\"")) << "the log says so too";
}

TEST_F(ProgramTrainRanks, ARankThatStopsEndsTheOthersInTime) {
  const Ran ran = ranks(true, "STOP");
  EXPECT_TRUE(ran.out.starts_with("111\n")) << ran.out;
  EXPECT_EQ(std::ranges::count(ran.out, '\n'), 1 + 3) << ran.out;
  EXPECT_TRUE(contains(ran.out, ": nothing for 2 seconds\n")) << ran.out;
}

TEST_F(ProgramTrainRanks, ARankThatDoesNotComeEndsTheOthersInTime) {
  const Ran ran = ranks(false, "");
  EXPECT_TRUE(ran.out.starts_with("111\n")) << ran.out;
  EXPECT_EQ(std::ranges::count(ran.out, '\n'), 1 + 3) << ran.out;
  EXPECT_TRUE(contains(ran.out, "opbound: tcp: rank 2 has not come within 2 seconds\n")) << ran.out;
}

}  // namespace
}  // namespace opbound
