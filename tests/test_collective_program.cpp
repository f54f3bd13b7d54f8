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
                           "all_reduce --order ring --order direct --dead-rank 3 --out r.jsonl"})
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
  EXPECT_TRUE(contains(refusal("collective --tensor a=200 --tensor a=56"), "--tensor: 'a' twice"));
}

TEST_F(ProgramCollective, numbers_beyond_any_use_are_refused_or_do_no_harm) {
  EXPECT_TRUE(contains(refusal("collective --lost nan"), "--lost"));
  EXPECT_TRUE(contains(refusal("collective --timeout nan"), "--timeout"));
  for (const char* seed : {"-1", "1.5", "9223372036854775808", "x"})
    EXPECT_TRUE(contains(refusal(std::string("collective --seed ") + seed),
                         "expected a seed from 0 to 2^63 - 1"));
  EXPECT_EQ(opbound("collective all_reduce --ranks 2 --seed 9223372036854775807 --quiet").code, 0);
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

/// A rank that is done before the round it dies in would look as if its death did no harm.
TEST_F(ProgramCollective, a_death_that_never_comes_is_refused) {
  const std::string words = "collective all_reduce --ranks 8 --order ring --dead-rank 3 ";
  EXPECT_EQ(opbound(words + "--dead-round 13").code, 1);
  EXPECT_EQ(refusal(words + "--dead-round 14"),
            "opbound: --dead-round: 14, expected at most 13, the last round of rank 3 in "
            "all_reduce by ring\n");
  EXPECT_EQ(refusal(words + "--order direct --dead-round 2"),
            "opbound: --dead-round: 2, expected at most 0, the last round of rank 3 in all_reduce "
            "by direct\n");
  EXPECT_TRUE(contains(refusal(words + "--dead-round -1"), "--dead-round"));
  EXPECT_TRUE(contains(refusal(words + "--reveal"), "--reveal: given with --dead-rank"));
}

/// Nothing runs where what has to be there is not: no record, and no table.
TEST_F(ProgramCollective, what_is_required_is_asked_for_before_anything_runs) {
  const Ran ran = opbound("collective --ranks 1024 --size 4096 --require mpi --out r.jsonl");
  EXPECT_EQ(ran.code, 3);
  EXPECT_EQ(ran.out, "");
  EXPECT_EQ(ran.err,
            "opbound: required mpi is missing: neither the engine of this run nor its device\n");
  EXPECT_FALSE(std::filesystem::exists(path("r.jsonl")));
}

/// --out is a run's from its start: who comes second is told before it spends its time.
TEST_F(ProgramCollective, a_file_that_another_run_writes_is_refused_at_the_start) {
  put("r.jsonl", "");
  const Ran ran =
      shell("flock r.jsonl " OPBOUND_PROGRAM " collective --ranks 1024 --size 4096 --out r.jsonl");
  EXPECT_EQ(ran.code, 2);
  EXPECT_EQ(ran.out, "");
  EXPECT_EQ(ran.err,
            "opbound: r.jsonl: another run is writing its records here, expected a file of its "
            "own\n");
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

TEST_F(ProgramCollective, a_launchers_nonsense_is_one_line) {
  const Ran ran = shell("RANK=4 WORLD_SIZE=4 " OPBOUND_PROGRAM " collective");
  EXPECT_EQ(ran.code, 2);
  EXPECT_EQ(ran.err, "opbound: RANK: 4, expected a rank below WORLD_SIZE, 4\n");
  EXPECT_EQ(shell("RANK=x WORLD_SIZE=4 " OPBOUND_PROGRAM " collective").code, 2);
}

}  // namespace
}  // namespace opbound
