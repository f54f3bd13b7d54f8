// opbound collective as a user runs it: simulated ranks, and those of mpirun.
#include <algorithm>
#include <filesystem>

#include "distributed/schedule.hpp"
#include "reports/history.hpp"
#include "tests/program.hpp"

namespace opbound {
namespace {

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

class ProgramCollective : public Program {};

TEST_F(ProgramCollective, simulated_ranks_pass_and_leave_records) {
  const Ran ran =
      opbound("collective --ranks 8 --size 61 --out r.jsonl --attribute reduction=mean");
  EXPECT_EQ(ran.code, 0) << ran.out << ran.err;
  EXPECT_TRUE(contains(ran.out, "exceeds 0, failed 0")) << ran.out;
  const std::vector<Record> records = read_records(path("r.jsonl"));
  EXPECT_GT(records.size(), 100U);
  for (const Record& r : records) EXPECT_EQ(r.ranks, 8);
  EXPECT_EQ(opbound("explain r.jsonl:1").code, 0);
}

/// The line that `explain` prints of a record, run again, gives that record again.
TEST_F(ProgramCollective, explain_prints_the_command_that_makes_a_record_again) {
  const std::string words =
      "collective --ranks 8 --size 61 --precision bf16:fp32:bf16 --attribute reduction=mean --seed "
      "7 --input 'uniform(low=1, high=2)' --tensor w=40 --tensor 'b b=21' ";
  for (const char* rest : {"--lost 0.1 --out r.jsonl", "--unwaited 'b b' --out r.jsonl",
                           "all_reduce --dead-rank 3 --dead-round 2 --out r.jsonl"})
    opbound(words + rest);
  const std::vector<Record> records = read_records(path("r.jsonl"));
  ASSERT_GT(records.size(), 100U);
  const auto text_of = [](Record r) {
    r.time_ms.reset();
    return to_json(r);
  };
  for (std::size_t k = 0; k < records.size(); k += 7) {
    const Ran explained = opbound("explain r.jsonl:" + std::to_string(k + 1));
    EXPECT_EQ(explained.code, 0) << explained.out << explained.err;
    const std::size_t at = explained.out.find("  opbound collective ");
    ASSERT_NE(at, std::string::npos) << explained.out;
    const std::string line = explained.out.substr(at, explained.out.find('\n', at) - at);
    std::filesystem::remove(path("again.jsonl"));
    opbound(line.substr(line.find("collective")) + " --out again.jsonl");
    const std::vector<Record> again = read_records(path("again.jsonl"));
    const auto is_it = [&](const Record& r) { return text_of(r) == text_of(records[k]); };
    EXPECT_EQ(std::ranges::count_if(again, is_it), 1) << line << "\n" << print_record(records[k]);
  }
}

TEST_F(ProgramCollective, what_is_wrong_ends_with_1_and_is_named) {
  const std::string words = "collective all_reduce --ranks 8 --size 61 --order ring ";
  const Ran soiled = opbound(words + "--tensor w=40 --tensor b=21 --unwaited b");
  EXPECT_EQ(soiled.code, 1);
  EXPECT_TRUE(contains(soiled.out, "ring, streams: read before they are written: b\n"))
      << soiled.out;
  const Ran dead = opbound(words + "--dead-rank 3 --dead-round 2");
  EXPECT_EQ(dead.code, 1);
  EXPECT_TRUE(contains(dead.out, "ring: rank 3 died in round 2; 7 other ranks wait\n")) << dead.out;
  const Ran lossy = opbound(words + "--lost 0.3");
  EXPECT_EQ(lossy.code, 0);
  EXPECT_TRUE(contains(lossy.out, "messages, ")) << lossy.out;
}

TEST_F(ProgramCollective, by_ranks_tells_error_bound_and_overflow) {
  const Ran ran = opbound("collective --by-ranks --ranks 100 --size 8 --precision bf16");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(contains(ran.out, "  100  ring")) << ran.out;
  EXPECT_FALSE(contains(ran.out, "  100  balanced_tree"));
  EXPECT_TRUE(contains(ran.out, "ring                1000: 66")) << ran.out;
}

TEST_F(ProgramCollective, by_ranks_is_drawn) {
  const Ran ran =
      opbound("collective --by-ranks --ranks 16 --size 8 --precision bf16 --plot p.html --quiet");
  EXPECT_EQ(ran.code, 0) << ran.err;
  const std::string page = shell("cat p.html").out;
  EXPECT_TRUE(contains(page, "<h2>bf16, 8 elements, normal</h2>")) << page;
  for (const int order : all_orders())
    EXPECT_TRUE(contains(page, ">" + std::string(name_of_order(order)) + "</text>"));
  EXPECT_TRUE(contains(page, "<title>16 ranks: bound ")) << page;
  EXPECT_TRUE(contains(refusal("collective --plot p.html"), "--plot requires --by-ranks"));
  EXPECT_TRUE(contains(refusal("collective all_reduce --by-ranks --ranks 4 --size 1 --plot no/p"),
                       "no/p: cannot be written"));
}

/// A hundred thousand ranks, one chunk.
TEST_F(ProgramCollective, a_hundred_thousand_ranks) {
  const Ran ran = opbound("collective --by-ranks --ranks 100000 --size 1 --precision fp32 --quiet");
  EXPECT_EQ(ran.code, 0) << ran.out << ran.err;
}

TEST_F(ProgramCollective, the_order_that_is_found_is_the_schedules) {
  const Ran ran = opbound("collective all_reduce --ranks 8 --size 61 --precision fp32 --reveal");
  EXPECT_EQ(ran.code, 0) << ran.err;
  for (const char* order :
       {"ring: the first element's order (0+(1..7)), as ring; not that of every",
        "(((0+1)+(2+3))+((4+5)+(6+7))), as balanced_tree; replayed, every bit",
        "(((0+4)+(2+6))+((1+5)+(3+7))), as halving_doubling; replayed"})
    EXPECT_TRUE(contains(ran.out, order)) << ran.out;
}

TEST_F(ProgramCollective, an_engine_that_is_not_here_is_skipped_or_missed) {
  const Ran skipped = shell("unset RANK; " OPBOUND_PROGRAM " collective --engine tcp");
  EXPECT_EQ(skipped.code, 0);
  EXPECT_TRUE(contains(skipped.out, "no launcher says which rank this is")) << skipped.out;
  EXPECT_EQ(opbound("collective --engine tcp --require tcp").code, 3);
  const std::string few = "collective --ranks 4 --size 8 --quiet ";
  EXPECT_EQ(opbound(few + "--require simulated").code, 0);
  EXPECT_EQ(opbound(few + "--require mpi").code, 3);
  EXPECT_EQ(opbound(few + "--by-ranks --require simulated").code, 0);
  EXPECT_EQ(opbound(few + "--by-ranks --require mpi").code, 3);
}

TEST_F(ProgramCollective, bad_use_is_one_line) {
  EXPECT_TRUE(contains(refusal("collective all_redcue"), "all_reduce?"));
  EXPECT_TRUE(contains(refusal("collective --order rong"), "ring?"));
  EXPECT_TRUE(contains(refusal("collective --engine mpj"), "mpi?"));
  EXPECT_TRUE(contains(refusal("collective --precision fp31"), "fp31"));
  EXPECT_TRUE(contains(refusal("collective --attribute reduction=mode"), "reduction"));
  EXPECT_TRUE(contains(refusal("collective --attribute group=0"), "group"));
  EXPECT_TRUE(contains(refusal("collective --tensor a=3"), "--size"));
  EXPECT_TRUE(contains(refusal("collective --tensor a"), "NAME=ELEMENTS"));
  EXPECT_TRUE(contains(refusal("collective --unwaited bias"), "bias"));
  EXPECT_TRUE(contains(refusal("collective --ranks 8 --dead-rank 8"), "--dead-rank"));
  EXPECT_TRUE(contains(refusal("collective --input nromal"), "nromal"));
  EXPECT_TRUE(contains(refusal("collective --by-ranks --engine mpi"), "simulated"));
  EXPECT_TRUE(contains(refusal("collective --ranks 0"), "--ranks"));
  EXPECT_TRUE(contains(refusal("collective --ranks 1000 --size 268435456"), "elements in all"));
  EXPECT_TRUE(contains(refusal("collective --ranks 16000 --size 16000"), "messages in all"));
  EXPECT_TRUE(contains(refusal("collective --tensor a=99999999999999999999"), "NAME=ELEMENTS"));
}

TEST_F(ProgramCollective, numbers_beyond_any_use_are_refused_or_do_no_harm) {
  EXPECT_TRUE(contains(refusal("collective --lost nan"), "--lost"));
  EXPECT_TRUE(contains(refusal("collective --timeout nan"), "--timeout"));
  for (const char* group : {"9", "2147483647", "4294967297"})
    EXPECT_EQ(opbound("collective --ranks 9 --order hierarchical --size 7 --attribute group=" +
                      std::string(group))
                  .code,
              0)
        << group;
}

// An extreme stores no partial sum: what a right kernel gives would be judged by numbers that it
// never rounded to 8 bits.
TEST_F(ProgramCollective, extremes_have_no_format_of_a_hop) {
  const std::string words =
      "collective all_reduce --ranks 9 --precision fp32:fp32:e4m3 --input special --attribute "
      "reduction=max --attribute hop=";
  EXPECT_EQ(opbound(words + "compute").code, 0);
  EXPECT_EQ(refusal(words + "output"),
            "opbound: --attribute: no variant of all_reduce has these, expected attributes and a "
            "precision that one of its variants allows\n");
}

TEST_F(ProgramCollective, an_option_without_effect_is_refused) {
  EXPECT_EQ(
      refusal("collective --engine mpi --ranks 8"),
      "opbound: --ranks: engine mpi, expected simulated, or nccl in one process: a launcher says "
      "how many ranks there are else\n");
  EXPECT_TRUE(contains(refusal("collective --lost 0.1 --engine mpi"), "--lost: engine mpi"));
  EXPECT_TRUE(contains(refusal("collective --lost 0.1 --engine nccl"), "--lost: engine nccl"));
  EXPECT_TRUE(contains(refusal("collective --dead-rank 1 --engine tcp"), "--dead-rank: engine"));
  EXPECT_TRUE(contains(refusal("collective --tensor b=256 --unwaited b --engine mpi"), "streams"));
  EXPECT_TRUE(contains(refusal("collective --order ring --engine nccl"),
                       "--order: engine nccl, expected balanced_tree alone"));
  EXPECT_TRUE(contains(refusal("collective --overflow 5"), "--overflow requires --by-ranks"));
  EXPECT_TRUE(contains(refusal("collective --dead-round 3"), "--dead-round requires --dead-rank"));
  EXPECT_TRUE(contains(refusal("collective --dead-rank -1"), "--dead-rank"));
  EXPECT_TRUE(contains(refusal("collective --by-ranks all_redcue"), "all_reduce?"));
  for (const char* rest : {"reduce_scatter", "--lost 0.1", "--dead-rank 1", "--reveal"})
    EXPECT_TRUE(
        contains(refusal(std::string("collective --by-ranks ") + rest), "--by-ranks: given"));
  EXPECT_EQ(opbound("collective all_reduce --ranks 4 --by-ranks --overflow 5 --quiet").code, 0);
  const Ran launched = shell("RANK=1 WORLD_SIZE=4 " OPBOUND_PROGRAM " collective --ranks 8");
  EXPECT_EQ(launched.code, 2);
  EXPECT_EQ(launched.err, "");  // rank 0 says what
}

// ---- MPI

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

// ---- ranks as torchrun starts them

class ProgramTcp : public ProgramCollective {
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

TEST_F(ProgramCollective, a_launchers_nonsense_is_one_line) {
  const Ran ran = shell("RANK=4 WORLD_SIZE=4 " OPBOUND_PROGRAM " collective");
  EXPECT_EQ(ran.code, 2);
  EXPECT_EQ(ran.err, "opbound: RANK: 4, expected a rank below WORLD_SIZE, 4\n");
  EXPECT_EQ(shell("RANK=x WORLD_SIZE=4 " OPBOUND_PROGRAM " collective").code, 2);
}

}  // namespace
}  // namespace opbound
