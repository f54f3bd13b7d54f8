// Records: verdicts, the way to JSON and back, hostile lines, files, and the words of explain.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "ops/philox.hpp"
#include "reports/history.hpp"
#include "reports/record.hpp"
#include "reports/verdict.hpp"
#include "suites/error.hpp"

namespace opbound {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Random records from a stream of Philox words: each field is there half of the time.
class RandomRecord {
 public:
  explicit RandomRecord(std::uint64_t seed) : seed_(seed) {}

  Record make() {
    Record r;
    r.kind = all_check_kinds[below(5)];
    r.op = "op" + text();
    for (std::string* s :
         {&r.part, &r.direction, &r.variant, &r.precision, &r.provider, &r.provider_version,
          &r.contract, &r.device, &r.allowed_vacuous, &r.bound_source, &r.output_hash, &r.schedule,
          &r.suite, &r.commit, &r.reason, &r.inputs.input})
      if (coin()) *s = text();
    for (std::optional<double>* x :
         {&r.acceptable_mean, &r.acceptable_max, &r.error_ulp_max, &r.error_ulp_mean, &r.bias_ulp,
          &r.bias_z, &r.alpha, &r.rounding_share, &r.method_share, &r.time_ms})
      if (coin()) *x = any_double();
    if (coin()) r.ratio = coin() ? infinity : std::abs(finite());
    if (coin()) r.p_value = static_cast<double>(word()) * 0x1p-32;
    for (std::size_t n = below(4), i = 0; i < n; ++i) {
      r.attributes.emplace_back("a" + std::to_string(i), attribute());
      r.environment.emplace_back("e" + std::to_string(i), coin() ? text() : "");
      r.inputs.shape.emplace_back("n" + std::to_string(i), static_cast<std::int64_t>(wide()));
    }
    if (coin()) r.inputs.seed = wide();
    if (coin()) r.nonfinite_mismatch = wide();
    if (coin()) r.ranks = static_cast<std::int64_t>(wide());
    if (coin()) r.in_situ = InSitu{1, static_cast<std::int64_t>(wide()), 3, 4};
    if (coin()) r.rungs = Rungs{wide(), wide(), wide()};
    if (coin()) r.blocks = BlockCounts{std::numeric_limits<std::uint64_t>::max(), wide()};
    for (std::size_t n = below(9); n > 0; --n) r.ulp_histogram.add(std::abs(finite()));
    if (coin()) r.worst = worst();
    fill_counts(r);
    return r;
  }

 private:
  std::uint32_t word() { return philox_word(seed_, 0, index_++); }
  std::uint64_t wide() { return (std::uint64_t{word()} << 32) | word(); }
  std::size_t below(std::size_t n) { return word() % n; }
  bool coin() { return below(2) == 0; }

  double any_double() { return std::bit_cast<double>(wide()); }
  double finite() {
    const double x = any_double();
    return std::isfinite(x) ? x : 0.0;
  }
  std::string text() {
    static constexpr std::array<std::string_view, 8> pieces{
        "a", "\n", "\"", "\\", "\u00e9", "\u2028", "\U0001f600", std::string_view("\0", 1)};
    std::string s;
    for (std::size_t n = 1 + below(6); n > 0; --n) s += pieces[below(pieces.size())];
    return s;
  }
  AttributeValue attribute() {
    switch (below(4)) {
      case 0:
        return coin();
      case 1:
        return static_cast<std::int64_t>(wide());
      case 2:
        return any_double();
      default:
        return coin() ? text() : "";
    }
  }
  Worst worst() {
    Worst w{wide(), {}, any_double(), any_double(), any_double(), any_double()};
    if (coin()) w.input = {{"x", any_double()}, {"dy", any_double()}};
    return w;
  }
  void fill_counts(Record& r) {
    ElementCounts& c = r.counts;
    c = {word(), below(2), below(2), below(2), 0};
    c.checked = c.within + c.exceeds + c.undecided + c.vacuous;
    r.verdict = c.exceeds > 0     ? Verdict::exceeds
                : c.undecided > 0 ? Verdict::undecided
                                  : all_verdicts[below(6)];
  }

  std::uint64_t seed_;
  std::uint64_t index_ = 0;
};

/// Bits, so that NaN and -0 count too; the sign and payload of a NaN are not kept.
bool same(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

Record small_record() {
  Record r;
  r.op = "gelu";
  r.precision = "bf16:fp32:bf16";
  r.counts = {.within = 2, .checked = 2};
  return r;
}

std::string refusal(const std::string& line) {
  try {
    from_json(line, "f.jsonl", 7);
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

/// small_record with `member` of the JSON set to `value`.
std::string with(const std::string& member, const nlohmann::ordered_json& value) {
  auto json = nlohmann::ordered_json::parse(to_json(small_record()));
  json[nlohmann::ordered_json::json_pointer("/" + member)] = value;
  return json.dump();
}

TEST(Verdict, PrecedenceIsTheOrderOfTheDesign) {
  EXPECT_EQ(worse(Verdict::failed, Verdict::exceeds), Verdict::failed);
  EXPECT_EQ(worse(Verdict::undecided, Verdict::exceeds), Verdict::exceeds);
  EXPECT_EQ(worse(Verdict::undecided, Verdict::vacuous), Verdict::undecided);
  EXPECT_EQ(worse(Verdict::skipped, Verdict::vacuous), Verdict::vacuous);
  EXPECT_EQ(worse(Verdict::skipped, Verdict::within), Verdict::skipped);
  for (const Verdict v : all_verdicts) {
    EXPECT_EQ(worse(Verdict::within, v), v);
    EXPECT_EQ(verdict_named(name_of(v)), v);
  }
  EXPECT_FALSE(verdict_named("Within"));
}

TEST(Verdict, ExitCodes) {
  const auto code = [](Verdict v, std::uint64_t allowed, bool missing = false) {
    VerdictCounts c;
    c.add(v);
    c.add(Verdict::within);
    return exit_code(c, allowed, missing);
  };
  EXPECT_EQ(code(Verdict::within, 0), 0);
  EXPECT_EQ(code(Verdict::skipped, 0), 0);
  EXPECT_EQ(code(Verdict::vacuous, 1), 0);
  EXPECT_EQ(code(Verdict::vacuous, 0), 1);
  for (const Verdict v : {Verdict::failed, Verdict::exceeds, Verdict::undecided})
    EXPECT_EQ(code(v, 1), 1) << name_of(v);
  EXPECT_EQ(code(Verdict::skipped, 0, true), 3);
  EXPECT_EQ(code(Verdict::exceeds, 0, true), 1);
}

TEST(UlpHistogram, EdgesBelongToTheLowerEntry) {
  const auto entry = [](double error_ulp) {
    UlpHistogram h;
    h.add(error_ulp);
    return h.counts.size() - 1;
  };
  EXPECT_EQ(entry(0.0), 0U);
  EXPECT_EQ(entry(5e-324), 1U);
  for (std::size_t k = 1; k < 63; ++k) {
    const double top = std::ldexp(1.0, static_cast<int>(k) - 2);
    EXPECT_EQ(entry(top), k);
    EXPECT_EQ(entry(std::nextafter(top, infinity)), k + 1);
  }
  EXPECT_EQ(entry(infinity), 63U);
  UlpHistogram h;
  EXPECT_THROW(h.add(std::nan("")), std::logic_error);
  EXPECT_THROW(h.add(-1.0), std::logic_error);
}

TEST(UlpHistogram, SumsEntryByEntry) {
  UlpHistogram a, b;
  a.add(0.0);
  b.add(0.0);
  b.add(1.5);
  a.add(b);
  EXPECT_EQ(a.counts, (std::vector<std::uint64_t>{2, 0, 0, 1}));
}

TEST(Hexadecimal, RoundTripsEveryBitPatternTried) {
  for (const double x : {0.0, -0.0, 1.0, 3.0, 5e-324, -0x1.fffffffffffffp1023, infinity, -infinity})
    EXPECT_TRUE(same(*parse_hexadecimal(hexadecimal(x)), x)) << hexadecimal(x);
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const auto bits =
        (std::uint64_t{philox_word(3, 0, 2 * i)} << 32) | philox_word(3, 0, 2 * i + 1);
    const auto x = std::bit_cast<double>(bits);
    ASSERT_TRUE(same(*parse_hexadecimal(hexadecimal(x)), x)) << hexadecimal(x);
  }
  EXPECT_EQ(hexadecimal(3.0), "0x1.8p+1");
  EXPECT_EQ(hexadecimal(-0.0), "-0x0p+0");
}

TEST(Hexadecimal, RefusesEverythingElse) {
  for (const char* text :
       {"", "-", "0x", "1.8p+1", "0x1.8p+1 ", " 0x1p0", "+0x1p0", "0x-1p0", "--0x1p0", "0xinf",
        "0xnan", "INF", "-nan", "infinity", "0x1p+99999", "1e5", "0X1p0"})
    EXPECT_FALSE(parse_hexadecimal(text)) << text;
}

TEST(RecordJson, RoundTripsRandomRecords) {
  RandomRecord random(1);
  for (int i = 0; i < 2000; ++i) {
    const Record r = random.make();
    const std::string line = to_json(r);
    ASSERT_EQ(line.find('\n'), std::string::npos);
    const Record back = from_json(line);
    ASSERT_EQ(to_json(back), line);
    ASSERT_EQ(back.attributes.size(), r.attributes.size());
    for (std::size_t a = 0; a < r.attributes.size(); ++a)
      ASSERT_EQ(back.attributes[a].second.index(), r.attributes[a].second.index()) << line;
    ASSERT_EQ(back.inputs, r.inputs);
    ASSERT_EQ(back.counts, r.counts);
    ASSERT_EQ(back.environment, r.environment);
    ASSERT_EQ(back.reason, r.reason);
    ASSERT_EQ(back.time_ms.has_value(), r.time_ms.has_value());
    ASSERT_TRUE(!r.time_ms || same(*back.time_ms, *r.time_ms)) << line;
    ASSERT_EQ(back.worst.has_value(), r.worst.has_value());
    ASSERT_TRUE(!r.worst || same(back.worst->got, r.worst->got)) << line;
  }
}

TEST(RecordJson, SmallestRecordIsOneReadableLine) {
  Record r;
  r.op = "gelu";
  EXPECT_EQ(to_json(r), R"({"schema":1,"kind":"bound","op":"gelu","verdict":"within"})");
}

TEST(RecordJson, ExactNumbersAreHexadecimalAndOthersDecimal) {
  Record r = small_record();
  r.ratio = infinity;
  r.time_ms = 0.1;
  r.worst = Worst{3, {{"x", -4.5}}, 1.5, -infinity, std::nan(""), 0.0};
  const std::string line = to_json(r);
  EXPECT_NE(line.find(R"("ratio":"inf")"), std::string::npos) << line;
  EXPECT_NE(line.find(R"("time_ms":0.1)"), std::string::npos) << line;
  EXPECT_NE(line.find(R"("worst":{"index":3,"input":{"x":"-0x1.2p+2"},"got":"0x1.8p+0",)"
                      R"("low":"-inf","high":"nan","bound":"0x0p+0"})"),
            std::string::npos)
      << line;
  EXPECT_EQ(from_json(line).ratio, infinity);
}

TEST(RecordJson, BytesThatAreNotUtf8AreReplaced) {
  Record r = small_record();
  r.reason = "bad \xff byte";
  EXPECT_EQ(from_json(to_json(r)).reason, "bad \ufffd byte");
}

TEST(RecordJson, WriterRefusesWhatReaderWouldRefuse) {
  const auto refused = [](auto&& change) {
    Record r = small_record();
    change(r);
    EXPECT_THROW(to_json(r), std::logic_error);
  };
  refused([](Record& r) { r.op.clear(); });
  refused([](Record& r) { r.counts.checked = 3; });
  refused([](Record& r) { r.counts = {.within = 1, .exceeds = 1, .checked = 2}; });
  refused([](Record& r) { r.counts = {.within = 1, .undecided = 1, .checked = 2}; });
  refused([](Record& r) { r.ratio = -1.0; });
  refused([](Record& r) { r.ratio = std::nan(""); });
  refused([](Record& r) { r.p_value = 1.5; });
  refused([](Record& r) { r.blocks = BlockCounts{1, 2}; });
  refused([](Record& r) { r.ulp_histogram.counts = {1, 0}; });
  refused([](Record& r) { r.attributes = {{"eps", std::string("inf")}}; });
  refused([](Record& r) { r.environment = {{"os", "a"}, {"os", "b"}}; });
}

TEST(RecordJson, RefusalsNameFileLineFieldAndWhatWasExpected) {
  EXPECT_EQ(refusal(with("ratio", "big")), "f.jsonl:7: 'ratio' is \"big\", expected a number");
  EXPECT_EQ(refusal(with("counts/within", -1)),
            "f.jsonl:7: 'counts.within' is -1, expected an integer from 0 to 2^64 - 1");
  EXPECT_EQ(refusal(with("colour", "red")),
            "f.jsonl:7: unknown field 'colour', expected a field of schema 1");
  EXPECT_EQ(refusal(with("counts/spare", 1)),
            "f.jsonl:7: unknown field 'counts.spare', expected a field of schema 1");
  EXPECT_EQ(refusal(with("schema", 2)), "f.jsonl:7: schema 2, expected 1");
  EXPECT_EQ(refusal(R"({"schema":1,"kind":"bound","verdict":"within"})"),
            "f.jsonl:7: no field 'op', expected one");
  EXPECT_EQ(refusal(R"({"schema":1,"op":"a","op":"b"})"),
            "f.jsonl:7: field 'op' stands twice, expected it once");
  EXPECT_EQ(refusal("{\"schema\":"),
            "f.jsonl:7: not JSON at byte 11, expected one record in each line");
}

TEST(RecordJson, RefusesHostileLines) {
  const std::string good = to_json(small_record());
  ASSERT_EQ(refusal(good), "accepted");
  for (const std::string& line : {std::string(),
                                  std::string("null"),
                                  std::string("[]"),
                                  std::string("1"),
                                  good + good,
                                  good + ",",
                                  std::string("\xff"),
                                  std::string(100000, '['),
                                  std::string("{\"a\":") + good,
                                  with("verdict", "fine"),
                                  with("verdict", 3),
                                  with("kind", nullptr),
                                  with("op", ""),
                                  with("part", ""),
                                  with("part", nullptr),
                                  with("schema", "1"),
                                  with("schema", 1.0),
                                  with("ratio", nullptr),
                                  with("ratio", "0x1p+0"),
                                  with("ratio", "NaN"),
                                  with("ratio", -2),
                                  with("ratio", true),
                                  with("counts", 3),
                                  with("counts/checked", 3),
                                  with("counts/exceeds", 1.0),
                                  with("counts/within", 18446744073709551615ULL),
                                  with("case", nlohmann::json::object()),
                                  with("case", nlohmann::json::array()),
                                  with("attributes", "x"),
                                  with("ranks", 1e300),
                                  with("ranks", 9223372036854775808ULL),
                                  with("ulp_histogram", nlohmann::json::array()),
                                  with("ulp_histogram", {1, 0}),
                                  with("ulp_histogram", {-1}),
                                  with("ulp_histogram", std::vector<int>(65, 1)),
                                  with("worst", {{"index", 1}}),
                                  with("blocks", {{"total", 1}, {"certified", 2}}),
                                  with("p_value", 2),
                                  with("attributes", {{"a", nlohmann::json::array({1})}}),
                                  with("attributes", {{"a", nlohmann::json::object()}})})
    EXPECT_NE(refusal(line), "accepted") << line.substr(0, 200);
  EXPECT_NE(refusal(R"({"schema":1,"op":"a","kind":"bound","verdict":"within","ratio":1e999})"),
            "accepted");
}

TEST(RecordJson, EveryTruncationAndEveryFlippedByteIsAnInputErrorOrARecord) {
  RandomRecord random(2);
  const std::string line = to_json(random.make());
  for (std::size_t n = 0; n < line.size(); ++n)
    ASSERT_NE(refusal(line.substr(0, n)), "accepted") << n;
  for (std::size_t n = 0; n < line.size(); ++n) {
    std::string changed = line;
    changed[n] = static_cast<char>(changed[n] ^ (1 << (n % 8)));
    refusal(changed);  // any exception but InputError would end the test
  }
}

TEST(RecordJson, MessagesOfHostileNamesStayOnOneLine) {
  const std::string message = refusal(with("a\n\033[2J", 1));
  EXPECT_EQ(message.find('\n'), std::string::npos);
  EXPECT_EQ(message.find('\033'), std::string::npos);
}

// ---- files

class RecordFile : public testing::Test {
 protected:
  RecordFile() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "opbound_record_XXXXXX").string();
    directory_ = mkdtemp(pattern.data());
    path_ = directory_ + "/records.jsonl";
  }
  ~RecordFile() override { std::filesystem::remove_all(directory_); }

  void put(const std::string& text) const { std::ofstream(path_, std::ios::binary) << text; }
  std::string text() const {
    std::ostringstream all;
    all << std::ifstream(path_, std::ios::binary).rdbuf();
    return all.str();
  }
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

  std::string directory_;
  std::string path_;
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

TEST_F(RecordFile, MissingAndUnreadableFilesAreInputErrors) {
  EXPECT_THROW(read_records(path_), InputError);
  EXPECT_THROW(read_records(directory_), InputError);
  EXPECT_THROW(RecordWriter{directory_}, InputError);
  EXPECT_THROW(RecordWriter{directory_ + "/none/records.jsonl"}, InputError);
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

// ---- explain

TEST(PrintRecord, ShowsEveryFieldOfAFullRecord) {
  RandomRecord random(5);
  for (int i = 0; i < 50; ++i) {
    const Record r = random.make();
    const std::string text = print_record(r);
    auto json = nlohmann::ordered_json::parse(to_json(r));
    for (const auto& [name, value] : json.items())
      EXPECT_NE(text.find(name == "worst" ? "worst element" : "\n  " + name), std::string::npos)
          << name;
    EXPECT_EQ(text.find('\0'), std::string::npos);
  }
}

TEST(PrintRecord, SaysWhyAnElementExceeds) {
  Record r = small_record();
  r.verdict = Verdict::exceeds;
  r.counts = {.within = 1, .exceeds = 1, .checked = 2};
  r.ratio = 3.0;
  // bf16 has 8 digits: 1 - 0x1p-6 and 1 + 0x1p-6 are its values, 1 +- 0x1p-10 round to 1.
  r.worst = Worst{1, {{"x", 1.5}}, 1.25, 1.0, 1.0, 0x1p-10};
  const std::string text = print_record(r);
  EXPECT_NE(text.find("1 of 2 elements have an error larger than the bound"), std::string::npos)
      << text;
  EXPECT_NE(text.find("got lies outside [RN(low - bound), RN(high + bound)] = [1, 1]"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("1.25 (0x1.4p+0)"), std::string::npos) << text;
  EXPECT_NE(text.find("input x"), std::string::npos) << text;
}

TEST(PrintRecord, NamesTheRoundingOnlyWhereTheStoreIsOne) {
  Record r = small_record();
  r.worst = Worst{0, {}, 1.0, 1.0, 1.0, 0.25};
  EXPECT_NE(print_record(r).find("got lies in [RN(high - bound), RN(low + bound)] = [0.75, 1.25]"),
            std::string::npos);
  for (const char* precision :
       {"fp32", "bf16", "bf16:fp32:fp32", "fp32:fp16:fp32", "x", "a:b:c", ""}) {
    r.precision = precision;
    EXPECT_NE(print_record(r).find("got lies in [high - bound, low + bound] = [0.75, 1.25]"),
              std::string::npos)
        << precision;
  }
  r.precision = "fp64";
  EXPECT_NE(print_record(r).find("fp64 outputs are judged by got - exact"), std::string::npos);
}

TEST(PrintRecord, OverflowOfE4m3IsJudgedAsInfinity) {
  Record r = small_record();
  r.precision = "e4m3:fp32:e4m3";
  r.worst = Worst{0, {}, infinity, 1000.0, 1000.0, 584.0};
  EXPECT_NE(print_record(r).find("= [416, inf]"), std::string::npos) << print_record(r);
  EXPECT_NE(print_record(r).find("inf (inf), stored as NaN"), std::string::npos);
}

TEST(PrintRecord, SaysWhatUndecidedAndInfiniteBoundsMean) {
  Record r = small_record();
  r.verdict = Verdict::undecided;
  r.counts = {.within = 1, .undecided = 1, .checked = 2};
  r.worst = Worst{0, {}, 1.0, 0.5, 1.5, 0.625};
  EXPECT_NE(print_record(r).find("whether it is within depends on where"), std::string::npos);
  r.worst->bound = infinity;
  EXPECT_NE(print_record(r).find("every value of got would pass"), std::string::npos);
}

TEST(PrintRecord, ForeignWordsCannotMoveTheCursorOrStartALine) {
  Record r = small_record();
  r.reason = "x\033[2J\nverdict  within";
  const std::string text = print_record(r);
  EXPECT_EQ(text.find('\033'), std::string::npos);
  EXPECT_NE(text.find("x?[2J?verdict  within"), std::string::npos) << text;
}

}  // namespace
}  // namespace opbound
