// What a machine may refuse: room on the disk, a folder, memory, a device, a file that another run
// holds. One line that says so, exit code 2, and nothing that was there before is lost.
#include <sys/stat.h>

#include "distributed/train/checkpoint.hpp"
#include "reports/history.hpp"
#include "reports/run_store.hpp"
#include "suites/tensor_file.hpp"
#include "tests/killed_program.hpp"
#include "tests/tiny_run.hpp"

namespace opbound {
namespace {

constexpr const char* suite = R"(op = "gelu"
seed = [1, 2, 3, 4, 5, 6, 7, 8]
[[case]]
precision = "fp32"
shape = [200]
)";

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

class Limits : public KilledProgram {
 protected:
  void SetUp() override {
    put("text.txt", tiny_text());
    put("small.toml", tiny_run("policy = \"fp32-reproducible\"\nsteps = 4\nmicro_batches = 2"));
    put("gelu.toml", suite);
  }

  /// A file beside the test's folder, which may not be written now.
  std::string told() const { return folder_.string() + "_told"; }

  /// What the program says after the shell's `before`: exit code 2 and one line.
  std::string refusal_after(const std::string& before, const std::string& words) const {
    const Ran ran = shell(before + "; " OPBOUND_PROGRAM " " + words);
    EXPECT_EQ(ran.code, 2) << words << ": " << ran.err;
    EXPECT_TRUE(ran.err.starts_with("opbound: ")) << words << ": " << ran.err;
    EXPECT_EQ(ran.err.find('\n') + 1, ran.err.size()) << words << ": " << ran.err;
    EXPECT_FALSE(has(ran.err, "internal error")) << ran.err;
    return ran.err;
  }
};

// ---- a disk without room: files may not grow beyond so many blocks of 512 bytes

TEST_F(Limits, records_without_room) {
  ASSERT_EQ(opbound("run gelu.toml --quiet --out r.jsonl").code, 0);
  const std::string before = get("r.jsonl");
  const std::string blocks = std::to_string(before.size() / 512 + 5);
  EXPECT_TRUE(has(refusal_after("ulimit -f " + blocks, "run gelu.toml --quiet --out r.jsonl"),
                  "r.jsonl: a record cannot be written: "));
  EXPECT_TRUE(get("r.jsonl").starts_with(before));
  EXPECT_GE(read_records(path("r.jsonl")).size(), 8U);  // the last one is whole
}

TEST_F(Limits, a_history_without_room) {
  ASSERT_EQ(opbound("run gelu.toml --quiet --out r.jsonl").code, 0);
  ASSERT_EQ(opbound("history add r.jsonl --store h --name one").code, 0);
  const std::string blocks = std::to_string(get("h").size() / 512);
  refusal_after("ulimit -f " + blocks, "history add r.jsonl --store h --name two");
  EXPECT_EQ(opbound("history list --names --store h").out, "one\n");
  EXPECT_EQ(opbound("history show one --store h").out, get("r.jsonl"));
  EXPECT_TRUE(has(refusal_after("ulimit -f 4", "history add r.jsonl --store fresh"), "fresh: "));
  EXPECT_EQ(opbound("history add r.jsonl --store fresh").code, 0);  // what is left of it is none
}

TEST_F(Limits, a_training_run_without_room) {
  ASSERT_EQ(opbound("train small.toml --quiet --checkpoint c --steps 2").code, 0);
  const std::string words = "train small.toml --quiet --resume ";
  EXPECT_TRUE(has(refusal_after("ulimit -f 20", words + "--checkpoint c"), "c/step-"));
  EXPECT_FALSE(std::filesystem::exists(path("c/writing.partial")));
  EXPECT_EQ(train::read_checkpoint(path("c/step-000000000002.safetensors")).step, 2);
  EXPECT_TRUE(
      has(refusal_after("ulimit -f 8", "train small.toml --quiet --save-weights w"), "w: "));
  EXPECT_FALSE(std::filesystem::exists(path("w")));
  EXPECT_TRUE(has(refusal_after("ulimit -f 1", "train small.toml --quiet --log l.jsonl"),
                  "l.jsonl: a record cannot be written"));
  EXPECT_TRUE(has(refusal_after("ulimit -f 1", "train small.toml --quiet --tensors t"), "t/"));
  const Ran whole = opbound("train small.toml --quiet");
  EXPECT_EQ(opbound(words + "--checkpoint c").out, whole.out);
}

TEST_F(Limits, output_without_room) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  for (const char* words : {"list ops", "run gelu.toml", "train small.toml --quiet"})
    EXPECT_TRUE(has(shell(OPBOUND_PROGRAM + std::string(" ") + words + " >/dev/full").err,
                    "standard output: cannot be written"))
        << words;
}

// ---- folders that may be read only, as a user who is not root

TEST_F(Limits, folders_that_may_not_be_written) {
  ASSERT_EQ(opbound("run gelu.toml --quiet --out r.jsonl").code, 0);
  ASSERT_EQ(opbound("history add r.jsonl --store h --name one").code, 0);
  ASSERT_EQ(opbound("train small.toml --quiet --checkpoint c --steps 2").code, 0);
  const std::string record = get("r.jsonl");
  std::string as;  // a user whom permissions hold
  if (geteuid() == 0) {
    as = "setpriv --reuid 65534 --regid 65534 --clear-groups ";
    ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
    if (shell(as + OPBOUND_PROGRAM " --version").code != 0)
      GTEST_SKIP() << "no other user may run the program";
  }
  for (const char* name : {"c", "."}) ASSERT_EQ(chmod(path(name).c_str(), 0555), 0);
  for (const char* name : {"r.jsonl", "h"}) ASSERT_EQ(chmod(path(name).c_str(), 0444), 0);
  const auto says = [&](const std::string& words, const std::string& what) {
    const std::string line = "{ " + as + OPBOUND_PROGRAM + " " + words + "; }";
    const int status = std::system(
        ("cd '" + folder_.string() + "' && " + line + " >" + told() + ".out 2>" + told() + ".err")
            .c_str());
    EXPECT_EQ(WEXITSTATUS(status), 2) << words;
    std::ostringstream text;
    text << std::ifstream(told() + ".err").rdbuf();
    const std::vector<std::string> lines = lines_of(text.str());
    ASSERT_FALSE(lines.empty()) << words;
    EXPECT_TRUE(lines.back().starts_with("opbound: " + what)) << words << ": " << text.str();
    EXPECT_EQ(lines.size(), has(text.str(), "an interrupt would lose the run") ? 2U : 1U)
        << words << ": " << text.str();  // which is told of where nothing is to be written at all
  };
  says("run gelu.toml --out r.jsonl", "r.jsonl: records cannot be written: Permission denied");
  says("run gelu.toml --out new.jsonl", "new.jsonl: records cannot be written: Permission denied");
  says("history add r.jsonl --store h", "h: ");
  says("history add r.jsonl --store new", "new: ");
  says("train small.toml --quiet --resume --checkpoint c", "");
  says("train small.toml --quiet --checkpoint new", "checkpoints: new: Permission denied");
  says("train small.toml --quiet --log new.jsonl", "new.jsonl: records cannot be written: Perm");
  says("train small.toml --quiet --save-weights w.safetensors", "weights: .: Permission denied");
  ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  ASSERT_EQ(chmod(path("c").c_str(), 0755), 0);
  EXPECT_EQ(get("r.jsonl"), record);
  for (const char* end : {".out", ".err"}) std::filesystem::remove(told() + end);
}

// ---- two at the same time

TEST_F(Limits, two_runs_with_one_file_of_records) {
  std::string seeds = "1";
  for (int seed = 2; seed <= 2000; ++seed) seeds += ", " + std::to_string(seed);
  put("long/gelu.toml",
      "op = \"gelu\"\nseed = [" + seeds + "]\n[[case]]\nprecision = \"fp32\"\nshape = [20000]\n");
  const Ran ran = shell(OPBOUND_PROGRAM
                        " run long/gelu.toml --quiet --out r.jsonl >first.txt & p=$!; "
                        "while ! [ -s r.jsonl ]; do sleep 0.01; done; " OPBOUND_PROGRAM
                        " run gelu.toml --quiet --out r.jsonl; echo $?; kill -INT $p; wait $p");
  EXPECT_EQ(ran.code, 130);
  EXPECT_EQ(ran.out, "2\n");
  EXPECT_TRUE(ran.err.starts_with("opbound: r.jsonl: another run is writing its records here"))
      << ran.err;
  for (const Record& record : read_records(path("r.jsonl")))
    EXPECT_EQ(record.suite, "long/gelu.toml");
}

TEST_F(Limits, many_that_add_to_one_history) {
  ASSERT_EQ(opbound("run gelu.toml --quiet --out r.jsonl").code, 0);
  const Ran ran = shell("for i in 1 2 3 4 5 6 7 8; do " OPBOUND_PROGRAM
                        " history add r.jsonl --store h --name run$i & done; wait");
  EXPECT_EQ(ran.err, "");
  RunStore store(path("h"), RunStore::Missing::refused);
  ASSERT_EQ(store.runs().size(), 8U);
  for (const StoredRun& run : store.runs()) EXPECT_EQ(store.records(run.name).size(), 8U);
}

TEST_F(Limits, two_training_runs_with_one_folder) {
  const std::string words = "train small.toml --quiet --checkpoint c --steps ";
  const Ran ran = shell(OPBOUND_PROGRAM " " + words +
                        "100000 --log l.jsonl & p=$!; while ! [ -s l.jsonl ]; do sleep 0.01; "
                        "done; " OPBOUND_PROGRAM " " +
                        words + "2; echo $?; kill -INT $p; wait $p");
  EXPECT_TRUE(has(ran.err, "opbound: c: another run writes its checkpoints here")) << ran.err;
  EXPECT_TRUE(ran.out.starts_with("2\n")) << ran.out;
  EXPECT_EQ(ran.code, 130);
}

// ---- memory that is not there: an address space of so many KiB

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/// 1.5 GiB: many times what the program takes, and less than one operand below.
constexpr const char* room = "ulimit -v 1572864";

TEST_F(Limits, a_check_without_memory_is_a_record_and_the_run_goes_on) {
  put("matmul.toml",
      "op = \"matmul\"\n[[case]]\nprecision = \"fp64\"\n"
      "shape = [[2, 3, 4], [16384, 16384, 16384], [5, 6, 7]]\n");
  for (const char* workers : {"1", "3"}) {
    std::filesystem::remove(path("r.jsonl"));
    const Ran ran =
        shell(std::string(room) +
              "; " OPBOUND_PROGRAM " run matmul.toml --quiet --out r.jsonl --workers " + workers);
    EXPECT_EQ(ran.code, 1) << ran.out;
    EXPECT_EQ(ran.err, "");
    const std::vector<Record> records = read_records(path("r.jsonl"));
    ASSERT_EQ(records.size(), 3U);
    EXPECT_EQ(records[0].verdict, Verdict::within) << records[0].reason;
    EXPECT_EQ(records[1].verdict, Verdict::failed);
    EXPECT_EQ(records[1].reason, "out of memory on the host");
    EXPECT_EQ(records[2].verdict, Verdict::within) << records[2].reason;
  }
}

TEST_F(Limits, a_command_without_memory_says_so) {
  write_npy(path("x.npy"), Tensor(Element::fp32, {1, 1}));
  std::string header = get("x.npy");
  header.resize(header.size() - sizeof(float));
  const std::string small = "(1, 1)", large = "(65536, 65536)";  // 16 GiB, none of it written
  const std::size_t at = header.find(small), padding = large.size() - small.size();
  ASSERT_NE(at, std::string::npos);
  header.replace(at, small.size(), large);
  header.erase(header.size() - 1 - padding, padding);  // blanks before the line's end
  put("x.npy", header);
  std::filesystem::resize_file(path("x.npy"), header.size() + (std::uintmax_t{16} << 30));
  const std::string words = "check --op gelu --precision fp32 --in x=x.npy --out y=x.npy";
  EXPECT_TRUE(has(refusal_after(room, words), "opbound: out of memory, expected "));
}
#endif

// ---- a device that is not there

TEST_F(Limits, a_device_that_is_not_there) {
  const std::string device = "--device cuda:7 --quiet ";
  const Ran ran = opbound("run gelu.toml --out r.jsonl " + device);
  EXPECT_EQ(ran.code, 0) << ran.err;
  const std::vector<Record> records = read_records(path("r.jsonl"));
  ASSERT_EQ(records.size(), 8U);
  for (const Record& record : records) {
    EXPECT_EQ(record.verdict, Verdict::skipped);
    EXPECT_FALSE(record.reason.empty());
  }
  EXPECT_EQ(opbound("run gelu.toml --require cuda " + device).code, 3);
  refusal("train small.toml --log l.jsonl " + device);
  EXPECT_EQ(refusal("run gelu.toml --device cuda:x"),
            "opbound: --device: 'cuda:x', expected cpu, cuda or cuda:N\n");
}

}  // namespace
}  // namespace opbound
