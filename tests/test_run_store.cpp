// The history: what goes in comes out line for line, whoever else writes, and nothing is lost.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include <set>

#include "reports/error.hpp"
#include "reports/history.hpp"
#include "reports/run_store.hpp"
#include "tests/random_record.hpp"
#include "tests/temporary_folder.hpp"

namespace opbound {
namespace {

using Missing = RunStore::Missing;

std::string lines_of(std::uint64_t seed, int count) {
  RandomRecord random(seed);
  std::string lines;
  for (int i = 0; i < count; ++i) lines += to_json(random.make()) + "\n";
  return lines;
}

class Store : public TemporaryFolder {
 protected:
  RunStore opened(Missing missing = Missing::made) const { return {path_, missing}; }
  std::string shown(RunStore& store, const std::string& name) const {
    std::string lines;
    store.for_each_line(name,
                        [&](std::string_view text, long) { lines.append(text).append("\n"); });
    return lines;
  }
  template <class Act>
  std::string refusal(Act act) const {
    try {
      act();
    } catch (const InputError& e) {
      return e.what();
    }
    return "accepted";
  }

  const std::string path_ = path("history.sqlite");
  const std::string line_ = to_json(small_record()) + "\n";
};

TEST_F(Store, GivesEveryLineBackAsItWas) {
  const std::string few = lines_of(1, 40);
  // another order of fields and other blanks, as somebody else may write it
  const std::string strange =
      "{ \"verdict\":\"within\",\"schema\":1, \"kind\":\"bound\",\"op\":\"o\"}\n";
  put("a.jsonl", few);
  put("b.jsonl", strange + line_);
  RunStore store = opened();
  EXPECT_EQ(store.add({path("a.jsonl"), path("b.jsonl")}), "a");
  EXPECT_EQ(shown(store, "a"), few + strange + line_);
  EXPECT_EQ(store.records("a").size(), 42U);
  RunStore again = opened(Missing::refused);
  EXPECT_EQ(shown(again, "a"), few + strange + line_);
}

TEST_F(Store, ARunMayBeLargerThanABlock) {
  const std::string many = lines_of(2, 6000);  // several MiB
  ASSERT_GT(many.size(), std::size_t{3} << 20);
  put("many.jsonl", many);
  RunStore store = opened();
  store.add({path("many.jsonl")});
  EXPECT_EQ(shown(store, "many"), many);
}

TEST_F(Store, ARunIsExportedAndImported) {
  put("a.jsonl", lines_of(3, 20));
  RunStore store = opened();
  store.add({path("a.jsonl")});
  put("exported.jsonl", shown(store, "a"));
  RunStore other(path("other.sqlite"), Missing::made);
  other.add({path("exported.jsonl")}, "a");
  EXPECT_EQ(shown(other, "a"), get("a.jsonl"));
}

TEST_F(Store, ReadsCompressedFiles) {
  const std::string lines = lines_of(4, 20);
  gzFile file = gzopen(path("a.jsonl.gz").c_str(), "wb");
  gzwrite(file, lines.data(), static_cast<unsigned>(lines.size()));
  gzclose(file);
  RunStore store = opened();
  EXPECT_EQ(store.add({path("a.jsonl.gz")}), "a");
  EXPECT_EQ(shown(store, "a"), lines);
}

TEST_F(Store, ListsWhatARunHolds) {
  Record own = small_record(), skipped = small_record();
  own.provider = "own";
  own.device = "cpu";
  own.commit = "abc";
  skipped.provider = "cudnn";
  skipped.verdict = Verdict::skipped;
  skipped.counts = {};
  put("a.jsonl", to_json(own) + "\n" + to_json(skipped) + "\n");
  RunStore store = opened();
  store.add({path("a.jsonl")});
  const std::vector<StoredRun> runs = store.runs();
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0].records, 2U);
  EXPECT_EQ(runs[0].summary.verdicts[Verdict::within], 1U);
  EXPECT_EQ(runs[0].summary.verdicts[Verdict::skipped], 1U);
  EXPECT_EQ(runs[0].summary.checked, 2U);
  EXPECT_EQ(runs[0].providers, "cudnn, own");
  EXPECT_EQ(runs[0].devices, "cpu");
  EXPECT_EQ(runs[0].commits, "abc");
  EXPECT_EQ(runs[0].added.size(), 20U);
  EXPECT_EQ(runs[0].added.back(), 'Z');
  EXPECT_FALSE(runs[0].is_accepted);
}

TEST_F(Store, NamesAreGivenOrNumbered) {
  put("a.jsonl", line_);
  RunStore store = opened();
  EXPECT_EQ(store.add({path("a.jsonl")}), "a");
  EXPECT_EQ(store.add({path("a.jsonl")}), "a-2");
  EXPECT_EQ(store.add({path("a.jsonl")}), "a-3");
  EXPECT_EQ(store.add({path("a.jsonl")}, "cudnn_9.14"), "cudnn_9.14");
  EXPECT_EQ(refusal([&] { store.add({path("a.jsonl")}, "cudnn_9.14"); }),
            "--name: there is a run 'cudnn_9.14' already, expected a new name");
  for (const char* name : {"-a", "a b", "a\n"})
    EXPECT_NE(refusal([&] { store.add({path("a.jsonl")}, name); }).find("a name without blanks"),
              std::string::npos);
  EXPECT_EQ(store.runs().size(), 4U);
}

TEST_F(Store, TheLastAcceptedRunIsTheOneAcceptedLast) {
  put("a.jsonl", line_);
  RunStore store = opened();
  for (const char* name : {"one", "two", "three"}) store.add({path("a.jsonl")}, name);
  EXPECT_TRUE(store.accepted().empty());
  store.accept("one");
  store.accept("three");
  ASSERT_EQ(store.accepted().size(), 2U);
  EXPECT_EQ(store.accepted().back().name, "three");
  store.accept("one");  // three was a mistake
  EXPECT_EQ(store.accepted().back().name, "one");
  EXPECT_EQ(store.accepted().size(), 2U);
}

TEST_F(Store, WhatIsWrongWithAFileIsSaidAndNothingIsKept) {
  put("torn.jsonl", line_ + line_.substr(0, 30));
  put("other.jsonl", line_ + "{\"schema\":9}\n");
  put("empty.jsonl", "");
  put("good.jsonl", line_);
  RunStore store = opened();
  EXPECT_NE(refusal([&] { store.add({path("torn.jsonl")}); }).find("torn.jsonl:2: the last line"),
            std::string::npos);
  EXPECT_NE(refusal([&] {
              store.add({path("good.jsonl"), path("other.jsonl")});
            }).find("other.jsonl:2: schema 9, expected 1"),
            std::string::npos);
  EXPECT_NE(refusal([&] { store.add({path("empty.jsonl")}); }).find("no records"),
            std::string::npos);
  EXPECT_TRUE(store.runs().empty());
}

TEST_F(Store, OnlyAHistoryIsOpened) {
  EXPECT_NE(refusal([&] { opened(Missing::refused); }).find("no such file"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(path_)) << "looking must not make a history";
  put("history.sqlite", "# Notes of mine, which are longer than SQLite's header of 100 bytes: " +
                            std::string(100, 'x'));
  const std::string notes = get("history.sqlite");
  for (const Missing missing : {Missing::made, Missing::refused})
    EXPECT_EQ(
        refusal([&] { opened(missing); }),
        path_ + ": is no SQLite database, expected a history that `opbound history add` made");
  EXPECT_EQ(get("history.sqlite"), notes);
  EXPECT_NE(refusal([&] {
              RunStore(path("none/h.sqlite"), Missing::made);
            }).find("its folder does not exist"),
            std::string::npos);
  EXPECT_NE(refusal([&] { RunStore(folder_.string(), Missing::made); }).find("is a folder"),
            std::string::npos);
}

TEST_F(Store, AnotherSchemaIsNamed) {
  {
    sqlite::Database other(path("other.sqlite"), true, 1000, "a test");
    other.execute("CREATE TABLE bookmarks (url TEXT)");
  }
  EXPECT_NE(refusal([&] {
              RunStore(path("other.sqlite"), Missing::made);
            }).find("is an SQLite database of something else"),
            std::string::npos);
  opened();
  sqlite::Database(path_, false, 1000, "a test").execute("PRAGMA user_version = 7");
  EXPECT_EQ(refusal([&] { opened(); }),
            path_ + ": is a history of schema 7, expected 1, which this opbound reads");
}

TEST_F(Store, DamagedRecordsAreSaidToBe) {
  put("a.jsonl", lines_of(5, 20));
  RunStore store = opened();
  store.add({path("a.jsonl")});
  sqlite::Database(path_, false, 1000, "a test")
      .execute("UPDATE block SET lines = substr(lines, 1, length(lines) - 9)");
  EXPECT_NE(refusal([&] { store.records("a"); }).find("its records are damaged"),
            std::string::npos);
}

/// Processes that each make the history if they come first, and add runs to it.
TEST_F(Store, WritersAtOnceLoseNothing) {
  constexpr int writers = 4, runs_each = 8;
  put("a.jsonl", lines_of(6, 300));
  std::vector<pid_t> children;
  for (int w = 0; w < writers; ++w) {
    const pid_t child = fork();
    if (child == 0) {
      try {
        for (int i = 0; i < runs_each; ++i) {
          RunStore store = opened();
          store.add({path("a.jsonl")});  // all of them wish for the same name
        }
        _exit(0);
      } catch (...) {
        _exit(1);
      }
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  RunStore store = opened(Missing::refused);
  std::set<std::string> names;
  for (const StoredRun& run : store.runs()) {
    names.insert(run.name);
    EXPECT_EQ(shown(store, run.name), get("a.jsonl"));
  }
  EXPECT_EQ(names.size(), std::size_t{writers * runs_each});
}

TEST_F(Store, AWriterThatIsKilledLeavesWholeRuns) {
  put("a.jsonl", lines_of(7, 300));
  opened().add({path("a.jsonl")}, "first");
  for (int round = 0; round < 10; ++round) {
    const pid_t child = fork();
    if (child == 0)
      for (;;) opened().add({path("a.jsonl")});
    usleep(10'000 + 3'000 * static_cast<useconds_t>(round));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    RunStore store = opened(Missing::refused);
    EXPECT_TRUE(store.has("first"));
    for (const StoredRun& run : store.runs())
      ASSERT_EQ(shown(store, run.name), get("a.jsonl")) << run.name;
  }
}

}  // namespace
}  // namespace opbound
