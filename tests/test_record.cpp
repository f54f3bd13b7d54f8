// Records: verdicts, the way to JSON and back, hostile lines.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bounds/verdict.hpp"
#include "ops/philox.hpp"
#include "reports/error.hpp"
#include "reports/record.hpp"
#include "tests/random_record.hpp"

namespace opbound {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Bits, so that NaN and -0 count too; the sign and payload of a NaN are not kept.
bool same(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
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

TEST(RecordJson, EveryFieldStandsInTheReadme) {
  std::ostringstream readme;
  readme << std::ifstream(OPBOUND_SOURCE_DIR "/reports/README.md").rdbuf();
  RandomRecord random(4);
  for (int i = 0; i < 50; ++i) {
    const auto json = nlohmann::ordered_json::parse(to_json(random.make()));
    for (const auto& [name, value] : json.items()) {
      const bool alone = readme.str().find("`" + name + "`") != std::string::npos;
      EXPECT_TRUE(alone || readme.str().find("`" + name + ".") != std::string::npos) << name;
    }
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

}  // namespace
}  // namespace opbound
