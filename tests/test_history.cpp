// Files of records: whole lines at every moment, and clear words where they are not.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <zlib.h>

#include <csignal>

#include "reports/error.hpp"
#include "reports/history.hpp"
#include "tests/random_record.hpp"
#include "tests/temporary_folder.hpp"

namespace opbound {
namespace {

class RecordFile : public TemporaryFolder {
 protected:
  void put(const std::string& text) const { TemporaryFolder::put("records.jsonl", text); }
  std::string text() const { return get("records.jsonl"); }
  std::string reading_error() const {
    try {
      read_records(path_);
    } catch (const InputError& e) {
      return e.what();
    }
    return "read";
  }
  void write_one() const {
    RecordWriter writer(path_);
    writer.write(small_record());
    writer.close();
  }

  const std::string path_ = path("records.jsonl");
  const std::string line_ = to_json(small_record()) + "\n";
};

TEST_F(RecordFile, AppendsWholeLines) {
  write_one();
  {
    RecordWriter writer(path_);
    writer.write(small_record());
    EXPECT_EQ(text(), line_ + line_) << "a line must not wait in a buffer";
  }
  EXPECT_EQ(read_records(path_).size(), 2U);
}

TEST_F(RecordFile, EmptyFileHoldsNoRecords) {
  put("");
  EXPECT_TRUE(read_records(path_).empty());
  write_one();
  EXPECT_EQ(text(), line_);
}

TEST_F(RecordFile, TornLastLineIsNamedOnReadingAndCutOffOnAppending) {
  for (const std::size_t kept : {std::size_t{1}, std::size_t{8}, line_.size() - 1}) {
    put(line_ + line_.substr(0, kept));
    EXPECT_EQ(reading_error().rfind(path_ + ":2: the last line is torn", 0), 0U) << reading_error();
    write_one();
    EXPECT_EQ(text(), line_ + line_);
  }
  put(line_.substr(0, 20));  // the only line
  write_one();
  EXPECT_EQ(text(), line_);
}

TEST_F(RecordFile, TornLineLongerThanOneReadIsCutOff) {
  put(line_ + line_.substr(0, line_.size() - 2) + std::string(10000, ' '));
  write_one();
  EXPECT_EQ(text(), line_ + line_);
}

TEST_F(RecordFile, NeverTouchesAFileOfSomethingElse) {
  for (const std::string& other : {std::string("# Notes\nmy last words"), std::string("notes"),
                                   std::string("\n"), line_ + "and by hand"}) {
    put(other);
    EXPECT_THROW(RecordWriter{path_}, InputError) << other;
    EXPECT_EQ(text(), other);
  }
}

TEST_F(RecordFile, ReadingNamesTheLine) {
  put(line_ + "\n" + line_);
  EXPECT_EQ(reading_error().rfind(path_ + ":2: ", 0), 0U) << reading_error();
  put(line_ + std::string(2 << 20, 'x') + "\n");
  EXPECT_EQ(reading_error(), path_ + ":2: a line above 1 MiB, expected a record of schema 1");
}

TEST_F(RecordFile, CompressedRecordsAreReadAndNeverAppendedTo) {
  const std::string name = path("records.jsonl.gz");
  gzFile file = gzopen(name.c_str(), "wb");
  gzwrite(file, (line_ + line_).data(), static_cast<unsigned>(2 * line_.size()));
  gzclose(file);
  EXPECT_EQ(read_records(name).size(), 2U);
  EXPECT_THROW(RecordWriter{name}, InputError);
  const std::string whole = get("records.jsonl.gz");
  put(whole.substr(0, whole.size() - 5));
  EXPECT_EQ(reading_error(),
            path_ + ": its compressed data are torn or damaged, expected a whole gzip file");
  put("\x1f\x8b\x08");
  EXPECT_NE(reading_error(), "read");
}

TEST_F(RecordFile, MissingAndUnreadableFilesAreInputErrors) {
  EXPECT_THROW(read_records(path_), InputError);
  EXPECT_THROW(read_records(folder_.string()), InputError);
  EXPECT_THROW(RecordWriter{folder_.string()}, InputError);
  EXPECT_THROW(RecordWriter{path("none/records.jsonl")}, InputError);
}

TEST_F(RecordFile, TwoWritersAreRefused) {
  RecordWriter first(path_);
  EXPECT_THROW(RecordWriter{path_}, InputError);
  first.close();
  write_one();
  EXPECT_EQ(text(), line_);
}

TEST_F(RecordFile, AFullDiskLeavesWholeLines) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  RecordWriter writer(path_);
  writer.write(small_record());
  rlimit small = before;
  small.rlim_cur = line_.size() + 10;  // the next line fits in part
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_THROW(writer.write(small_record()), InputError);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(text(), line_);
  writer.write(small_record());
  writer.close();
  EXPECT_EQ(read_records(path_).size(), 2U);
}

TEST_F(RecordFile, APipeIsWrittenToAsItIs) {
  RecordWriter writer("/dev/null");
  writer.write(small_record());
  EXPECT_NO_THROW(writer.close());
}

}  // namespace
}  // namespace opbound
