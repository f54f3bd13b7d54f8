// opbound history, diff, and tools/nightly: what a user sees, and the exit codes.
#include <algorithm>

#include "reports/history.hpp"
#include "tests/compared_records.hpp"
#include "tests/program.hpp"

namespace opbound {
namespace {

const std::string suite = R"toml(op = "gelu"
[[case]]
precision = "bf16:fp32:bf16"
variant = ["erfc", "one_plus_erf"]
shape = [65536]
input = {x = "every_pattern"}
)toml";

/// The same checks, with the form that cancels judged by the bound of the one that does not.
const std::string regressed_suite = R"toml(op = "gelu"
[[case]]
precision = "bf16:fp32:bf16"
variant = ["erfc", "one_plus_erf"]
declare = "erfc"
shape = [65536]
input = {x = "every_pattern"}
)toml";

class ProgramHistory : public Program {
 protected:
  void put_records(const std::string& name, const std::vector<Record>& records) const {
    std::string lines;
    for (const Record& r : records) lines += to_json(r) + "\n";
    put(name, lines);
  }
  /// A history with the runs old and new, in which a library and an error differ.
  void put_upgrade() const {
    Record before = check_record(), after = with_other_bits(check_record());
    before.environment = {{"cudnn", "9.14"}};
    after.environment = {{"cudnn", "9.19"}};
    after.error_ulp_max = 2;
    put_records("old.jsonl", {before});
    put_records("new.jsonl", {after});
    for (const char* run : {"old", "new"})
      EXPECT_EQ(opbound(std::string("history add --store h ") + run + ".jsonl").out,
                std::string(run) + " is in h\n");
  }
  void says(const std::string& words, const std::string& what) const {
    const std::string line = refusal(words);
    EXPECT_TRUE(line.starts_with("opbound: " + what)) << line;
  }
};

TEST_F(ProgramHistory, keeps_runs_and_gives_them_back) {
  put("suites/gelu.toml", suite);
  ASSERT_EQ(opbound("run --quiet --out r.jsonl").code, 0);
  EXPECT_EQ(opbound("history add r.jsonl --store h --name first").out, "first is in h\n");
  EXPECT_EQ(opbound("history add r.jsonl --store h").out, "r is in h\n");
  EXPECT_EQ(opbound("history show first --store h").out, get("r.jsonl"));
  const Ran list = opbound("history list --store h");
  EXPECT_EQ(list.code, 0);
  EXPECT_NE(list.out.find("first  20"), std::string::npos) << list.out;
  EXPECT_NE(list.out.find("\n2 runs\n"), std::string::npos) << list.out;
  EXPECT_EQ(opbound("history list --names --store h").out, "first\nr\n");
  EXPECT_EQ(opbound("history list --accepted --names --store h").out, "");
  EXPECT_EQ(opbound("history accept first --store h").code, 0);
  EXPECT_EQ(opbound("history list --accepted --names --store h").out, "first\n");
  // out and in again, through a pipe
  const Ran copied = shell(OPBOUND_PROGRAM " history show first --store h | " OPBOUND_PROGRAM
                                           " history add /dev/stdin --store copy --name first");
  EXPECT_EQ(copied.code, 0) << copied.err;
  EXPECT_EQ(opbound("history show first --store copy").out, get("r.jsonl"));
}

TEST_F(ProgramHistory, lies_where_the_environment_says) {
  put_records("r.jsonl", {check_record()});
  const auto with = [&](const std::string& environment) {
    return shell(environment + " " OPBOUND_PROGRAM " history add r.jsonl").out;
  };
  EXPECT_EQ(with("OPBOUND_HISTORY=mine.sqlite"), "r is in mine.sqlite\n");
  EXPECT_EQ(with("OPBOUND_HISTORY= XDG_DATA_HOME=data"), "r is in data/opbound/history.sqlite\n");
  EXPECT_EQ(with("OPBOUND_HISTORY= XDG_DATA_HOME= HOME=home"),
            "r is in home/.local/share/opbound/history.sqlite\n");
}

TEST_F(ProgramHistory, says_in_one_line_what_is_wrong) {
  put_upgrade();
  put("notes.txt", std::string(200, 'x'));
  put("torn.jsonl", get("old.jsonl") + "{\"schema\":1");
  says("history", "command line: ");
  says("history lst", "command line: unknown command 'lst' (list?), expected one of add, list, ");
  says("history add --store h", "command line: ");
  says("history add missing.jsonl --store h", "missing.jsonl: cannot be read: No such file");
  says("history add torn.jsonl --store h", "torn.jsonl:2: the last line is torn");
  says("history add old.jsonl --store notes.txt", "notes.txt: is no SQLite database, expected ");
  says("history add old.jsonl --store none/h", "none/h: its folder does not exist, expected ");
  says("history add old.jsonl --store h --name old", "--name: there is a run 'old' already");
  says("history list --store none", "none: no such file, expected a history");
  says("history show odl --store h", "history: unknown run 'odl' (old?), expected a name that ");
  says("history accept odl --store h", "history: unknown run 'odl' (old?)");
  says("diff history:odl new.jsonl --store h", "history: unknown run 'odl' (old?)");
  says("diff old new.jsonl",
       "diff: 'old' is no file, expected a file of records, or a run of the "
       "history: history:old\n");
  says("diff old.jsonl new.jsonl --allow drivr", "--allow: unknown 'drivr' (driver?)");
  says("diff old.jsonl torn.jsonl", "torn.jsonl:2: ");
  says("diff old.jsonl new.jsonl --html --csv", "command line: ");
  EXPECT_EQ(opbound("history list --names --store h").out, "old\nnew\n");
}

TEST_F(ProgramHistory, says_what_a_file_of_another_kind_is) {
  put_records("r.jsonl", {check_record()});
  const std::string deep = R"(,"spec":{"a":{"b":{"c":{"d":1}}}}})"
                           "\n";
  const auto refused_by_all = [&](const std::string& file, const std::string& what) {
    for (const std::string words :
         {"history add --store h ", "diff r.jsonl ", "explain ", "table "})
      if (words != "table " || !file.starts_with("log")) says(words + file, file + ": " + what);
  };
  put("log.jsonl", R"({"schema":1,"kind":"training_run")" + deep);
  refused_by_all("log.jsonl",
                 "a training log, not records of checks, expected opbound table log.jsonl, ");
  put("a.jsonl", R"({"schema":1,"kind":"attribution")" + deep);
  refused_by_all("a.jsonl",
                 "attributions, not records of checks, expected opbound report a.jsonl, ");
  put("c.jsonl", R"({"schema":1,"kind":"claim")" + deep);
  refused_by_all("c.jsonl",
                 "records of claims, not records of checks, expected opbound claims --records ");
  put("s.jsonl", R"({"schema":1,"kind":"clean_twin")" + deep);
  refused_by_all("s.jsonl", "results of opbound sentinel, not records of checks, expected ");
  put("t.trace", "SQLite format 3\n" + std::string(2 << 20, 'x'));
  refused_by_all("t.trace", "an SQLite database, such as a trace or a history, expected ");
}

TEST_F(ProgramHistory, compares_files_and_runs) {
  put_upgrade();
  for (const char* words : {"diff old.jsonl new.jsonl", "diff history:old new.jsonl --store h",
                            "diff history:old history:new --store h --upgrade cudnn"}) {
    const Ran ran = opbound(words);
    EXPECT_EQ(ran.code, 1) << words << ran.err;
    EXPECT_NE(ran.out.find("differs: cudnn 9.14 -> 9.19\n"), std::string::npos) << ran.out;
    EXPECT_NE(ran.out.find("0.75 -> 2.00"), std::string::npos) << ran.out;
    EXPECT_NE(ran.out.find("\ncontract broken 0, worse 1, better 0,"), std::string::npos);
  }
  EXPECT_EQ(opbound("diff new.jsonl old.jsonl").code, 0);
  EXPECT_EQ(opbound("diff old.jsonl old.jsonl").code, 0);
  EXPECT_NE(opbound("diff old.jsonl new.jsonl --markdown").out.find("\n| op |"), std::string::npos);
  EXPECT_TRUE(opbound("diff old.jsonl new.jsonl --csv").out.starts_with("change,by,"));
  EXPECT_TRUE(opbound("diff old.jsonl new.jsonl --html").out.starts_with("<!doctype html>"));
}

TEST_F(ProgramHistory, refuses_two_upgrades_at_once_unless_told) {
  put_upgrade();
  Record other = with_other_bits(check_record());
  other.environment = {{"cudnn", "9.19"}};
  other.device = "NVIDIA H200";
  put_records("other.jsonl", {other});
  says("diff old.jsonl other.jsonl",
       "diff: the runs differ in more than one thing: cudnn 9.14 -> 9.19; device cpu -> NVIDIA "
       "H200, expected the upgrade alone; if it is cudnn and the rest may differ too: --allow "
       "device, or --allow all\n");
  EXPECT_EQ(opbound("diff old.jsonl other.jsonl --allow device").code, 0);
  EXPECT_EQ(opbound("diff old.jsonl other.jsonl --allow device,driver --upgrade cudnn").code, 0);
  says("diff old.jsonl other.jsonl --allow device --upgrade commit",
       "--upgrade: commit is abc in both, expected what differs: cudnn, device\n");
  put_records("softmax.jsonl", {[] {
                Record r = check_record();
                r.op = "softmax";
                return r;
              }()});
  says("diff old.jsonl softmax.jsonl", "diff: the runs have no check in common, expected ");
}

TEST_F(ProgramHistory, finds_a_regression_of_real_kernels) {
  put("old/gelu.toml", suite);
  put("new/gelu.toml", regressed_suite);
  EXPECT_EQ(opbound("run old/gelu.toml --quiet --out old.jsonl").code, 0);
  EXPECT_EQ(opbound("run new/gelu.toml --quiet --out new.jsonl").code, 1);
  const Ran ran = opbound("diff old.jsonl new.jsonl");
  EXPECT_EQ(ran.code, 1) << ran.err;
  EXPECT_NE(ran.out.find("contract broken 1, worse 0, better 0, same error 0, same bits 1;"),
            std::string::npos)
      << ran.out;
  EXPECT_EQ(opbound("diff old.jsonl old.jsonl").code, 0);
}

// ---- nights

class Nightly : public ProgramHistory {
 protected:
  Nightly() { put("suites/gelu.toml", suite); }

  Ran night(const std::string& words = "--devices cpu") const {
    return shell("bash '" OPBOUND_SOURCE_DIR "/tools/nightly' --program " OPBOUND_PROGRAM
                 " --tier quick --store h --reports reports " +
                 words);
  }
  long runs(const std::string& words = "") const {
    const std::string names = opbound("history list --names --store h" + words).out;
    return std::count(names.begin(), names.end(), '\n');
  }
  std::vector<std::string> reports(const std::string& extension) const {
    std::vector<std::string> files;
    for (const auto& file : std::filesystem::directory_iterator(path("reports")))
      if (file.path().extension() == extension)
        files.push_back("reports/" + file.path().filename().string());
    std::sort(files.begin(), files.end());
    return files;
  }
};

TEST_F(Nightly, a_quiet_night_is_the_next_ones_good_one) {
  const Ran first = night();
  EXPECT_EQ(first.code, 0) << first.out << first.err;
  const Ran second = night();
  EXPECT_EQ(second.code, 0) << second.out << second.err;
  EXPECT_NE(second.out.find("compared with night_quick_cpu_"), std::string::npos) << second.out;
  EXPECT_EQ(runs(" --accepted"), 2);
  ASSERT_EQ(reports(".md").size(), 2U);
  EXPECT_NE(get(reports(".md")[0]).find("no earlier good night"), std::string::npos);
  EXPECT_NE(get(reports(".md")[1]).find("same bits 2;"), std::string::npos);
  ASSERT_EQ(reports(".html").size(), 1U);
  EXPECT_TRUE(get(reports(".html")[0]).starts_with("<!doctype html>"));
  EXPECT_TRUE(reports(".jsonl").empty()) << "the history has the records";
}

TEST_F(Nightly, a_night_with_a_regression_never_becomes_the_good_one) {
  ASSERT_EQ(night().code, 0);
  const std::string good = opbound("history list --accepted --names --store h").out;
  put("suites/gelu.toml", regressed_suite);
  for (int i = 0; i < 2; ++i) {  // also the night after it is compared with the good one
    const Ran bad = night();
    EXPECT_EQ(bad.code, 1) << bad.out << bad.err;
    EXPECT_NE(bad.out.find("compared with " + good), std::string::npos) << bad.out;
    EXPECT_NE(get(reports(".md").back()).find("contract broken 1,"), std::string::npos);
  }
  EXPECT_EQ(opbound("history list --accepted --names --store h").out, good);
  EXPECT_EQ(runs(), 3);
  // someone who knows it says so: from then on it is no finding
  std::string names = opbound("history list --names --store h").out;
  names.pop_back();
  const std::string last = names.substr(names.rfind('\n') + 1);
  EXPECT_EQ(opbound("history accept --store h " + last).code, 0);
  EXPECT_EQ(night().code, 0);
  put("suites/gelu.toml", suite);
  EXPECT_EQ(night().code, 0) << "better than known";
}

/// The errors of the last record become larger, within their bound: nothing that a run would find.
TEST_F(Nightly, a_larger_error_is_found_by_the_night_after) {
  ASSERT_EQ(night().code, 0);
  const std::string names = opbound("history list --names --store h").out;
  opbound("history show --store h " + names.substr(0, names.size() - 1));
  std::vector<Record> records = read_records(path("out.txt"));
  records.back().error_ulp_max = *records.back().error_ulp_max / 2;
  records.back().output_hash = "sum64:0";
  put_records("smaller.jsonl", records);
  ASSERT_EQ(opbound("history add smaller.jsonl --store h --name night_quick_cpu_smaller").code, 0);
  ASSERT_EQ(opbound("history accept night_quick_cpu_smaller --store h").code, 0);
  const Ran worse = night();
  EXPECT_EQ(worse.code, 1) << worse.out;
  EXPECT_NE(get(reports(".md").back()).find("worse 1,"), std::string::npos);
}

TEST_F(Nightly, a_first_night_with_findings_is_not_good) {
  put("suites/gelu.toml", regressed_suite);
  EXPECT_EQ(night().code, 1);
  EXPECT_EQ(runs(), 1);
  EXPECT_EQ(runs(" --accepted"), 0);
  EXPECT_EQ(night().code, 1);
}

TEST_F(Nightly, a_device_that_is_gone_is_no_good_night) {
  const Ran ran = night("--devices cpu,cuda:63");
  EXPECT_EQ(ran.code, 3) << ran.out << ran.err;
  EXPECT_EQ(runs(), 1) << "what is missing is asked for before anything runs: no record is kept";
  EXPECT_EQ(runs(" --accepted"), 1);
}

TEST_F(Nightly, the_nightly_tier_says_what_it_catches) {
  // `power` takes minutes: here another program answers for it.
  put("stub",
      "#!/bin/sh\nif [ \"$1\" = power ]; then echo \"$@\"; exit $(cat code); "
      "fi\nexec " OPBOUND_PROGRAM " \"$@\"\n");
  std::filesystem::permissions(path("stub"), std::filesystem::perms::owner_all);
  for (const char* code : {"0", "1"}) {
    put("code", code);
    const Ran ran = night("--devices cpu --tier nightly --program ./stub");
    EXPECT_EQ(ran.code, std::atoi(code)) << ran.out << ran.err;
    EXPECT_NE(ran.out.find("good"), std::string::npos) << ran.out;
    EXPECT_TRUE(get(reports(".md").back()).starts_with("power --tier nightly --out reports/night_"))
        << get(reports(".md").back());
  }
}

TEST_F(Nightly, what_it_cannot_do_is_code_2) {
  EXPECT_EQ(night("--devices tpu").code, 2);
  EXPECT_EQ(night("--nonsense").code, 2);
  EXPECT_EQ(night("--tier").code, 2);
  EXPECT_EQ(night("--devices cpu -- --case nothing_of_this_name").code, 2);
  put("notes.txt", std::string(200, 'x'));
  const Ran ran = night("--devices cpu --store notes.txt");
  EXPECT_EQ(ran.code, 2) << ran.out;
  EXPECT_EQ(reports(".jsonl").size(), 1U) << "records that could not be stored are kept";
}

TEST_F(Nightly, words_behind_two_dashes_go_to_the_run) {
  EXPECT_EQ(night("--devices cpu --name few -- --case one_plus_erf").code, 0);
  const std::string name = opbound("history list --names --store h").out;
  EXPECT_TRUE(name.starts_with("few_quick_cpu_")) << name;
  const std::string shown =
      opbound("history show --store h " + name.substr(0, name.size() - 1)).out;
  EXPECT_EQ(std::count(shown.begin(), shown.end(), '\n'), 1);
}

}  // namespace
}  // namespace opbound
