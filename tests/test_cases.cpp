// Public bug reports: tests/cases/cases.toml says of each how it is shown here, or why it cannot
// be.
//   case.<op>.<id>_<report>   every faulty kernel exceeds where the right one is within; the right
//                             values are the published ones
#include <gtest/gtest.h>

#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "reports/record.hpp"
#include "suites/input.hpp"
#include "suites/run.hpp"
#include "suites/suite_toml.hpp"
#include "tests/detection/public_case_run.hpp"
#include "tests/faulty_provider.hpp"

namespace opbound {
namespace {

// ---- the table

struct Report {
  std::string id, source, op, what, shown, not_shown;
};

std::string text_of(const detail::TomlTable& table, std::string_view key) {
  const auto* value = table.find(key);
  return value == nullptr ? "" : value->text();
}

std::vector<Report> read_reports() {
  static const std::string path = std::string(OPBOUND_SOURCE_DIR) + "/tests/cases/cases.toml";
  static const toml::table root = detail::parse_toml(path);
  static constexpr std::string_view file_keys[] = {"case"};
  static constexpr std::string_view keys[] = {"id", "source", "op", "what", "shown", "not_shown"};
  const detail::TomlTable file(detail::TomlValue(root, path, "the file"), file_keys);
  std::vector<Report> all;
  for (const auto& entry : file.at("case").list("a list of tables")) {
    const detail::TomlTable t(entry, keys);
    all.push_back({t.at("id").text(), t.at("source").text(), t.at("op").text(), t.at("what").text(),
                   text_of(t, "shown"), text_of(t, "not_shown")});
  }
  return all;
}

TEST(Cases, EveryReportIsShownOrSaysWhyItCannotBe) {
  std::set<std::string, std::less<>> shown, seen;
  for (const PublicCase& c : public_cases()) shown.insert(std::string(c.id));
  const std::vector<Report> reports = read_reports();
  EXPECT_EQ(reports.size(), 109U);
  for (const Report& r : reports) {
    EXPECT_TRUE(seen.insert(r.id).second) << r.id << " twice";
    EXPECT_NE(r.shown.empty(), r.not_shown.empty()) << r.id << ": either shown or not";
    EXPECT_EQ(shown.count(r.id) > 0, !r.shown.empty()) << r.id;
    EXPECT_GT(r.what.size(), 20U) << r.id;
  }
  for (const std::string& id : shown)
    EXPECT_TRUE(seen.count(id) > 0) << id << " is not in the table";
}

// ---- what is shown

Verdict worst_of(const CaseSpec& spec, const Provider& provider, Prepared& prepared) {
  provider.run(*spec.op, prepared.call);
  Verdict worst = Verdict::within;
  for (const Record& r :
       judge_case(spec, provider, prepared, provider.contract(*spec.op, spec.declared)))
    worst = worse(worst, r.verdict);
  return worst;
}

/// A published decimal and half a unit of its last digit.
struct Decimal {
  double value = 0, half_unit = 0;
};

Decimal decimal_of(std::string_view text) {
  Decimal d;
  const bool is_exact = text.front() == '=';
  if (is_exact) text.remove_prefix(1);
  const auto read = std::from_chars(text.data(), text.data() + text.size(), d.value);
  detail::require(read.ptr == text.data() + text.size(), "a published number");
  if (is_exact || !std::isfinite(d.value)) return d;
  const auto e = text.find('e'), point = text.find('.');
  int exponent = 0;
  if (e != std::string_view::npos)
    std::from_chars(text.data() + e + 1, text.data() + text.size(), exponent);
  const auto end = e == std::string_view::npos ? text.size() : e;
  if (point != std::string_view::npos) exponent -= static_cast<int>(end - point - 1);
  d.half_unit = std::pow(10.0, exponent) / 2;
  return d;
}

void check_published(const PublicCase& c, const CaseSpec& spec, Prepared& prepared) {
  if (c.published.empty()) return;
  const PassInfo& pass = spec.op->pass(spec.direction);
  ReferenceArrays exact(prepared.call.judged().size());
  spec.op->reference_mpfr(prepared.call, 256, {}, exact);
  for (const PublishedValues& known : c.published) {
    std::size_t t = 0;
    while (pass.tensors[t].name != known.tensor) ++t;
    for (std::size_t i = 0; i < known.values.size(); ++i) {
      if (known.values[i].empty()) continue;
      const Decimal d = decimal_of(known.values[i]);
      const Exact& e = exact[t].exact[i];
      if (std::isnan(d.value)) {
        EXPECT_EQ(e.kind, Exact::Class::nan) << c.id << " " << i;
      } else if (std::isinf(d.value)) {
        EXPECT_EQ(e.kind, d.value > 0 ? Exact::Class::plus_infinity : Exact::Class::minus_infinity);
      } else {
        EXPECT_EQ(e.kind, Exact::Class::finite) << c.id << " " << i;
        EXPECT_LE(std::fabs((e.high - d.value) + e.low), d.half_unit + e.radius)
            << c.id << " " << known.tensor << "[" << i << "] is " << e.high << ", published "
            << known.values[i];
      }
    }
  }
}

void show(const PublicCase& c) {
  const CaseSpec spec = spec_of(c);
  Prepared prepared = prepared_for(c, spec);
  check_published(c, spec, prepared);
  EXPECT_EQ(worst_of(spec, *own_host_provider(), prepared), Verdict::within)
      << c.id << ": the right kernel";
  if (c.kernel.run) {
    EXPECT_EQ(worst_of(spec, FaultyProvider(c.id, c.kernel.run), prepared), Verdict::exceeds)
        << c.id << ": " << c.what;
  }
}

class Shown : public testing::Test {
 public:
  explicit Shown(std::vector<PublicCase> all) : all_(std::move(all)) {}
  void TestBody() override {
    for (const PublicCase& c : all_) show(c);
  }

 private:
  std::vector<PublicCase> all_;
};

/// Letters and digits, with one _ for whatever else stands between them.
std::string word_of(std::string_view text) {
  std::string word;
  for (const char c : text)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      word += c;
    else if (!word.empty() && word.back() != '_')
      word += '_';
  return word;
}

/// One test for each op and report: case.gelu.GELU_01_tenstorrent_tt_metal_35971.
[[maybe_unused]] const bool registered = [] {
  std::map<std::pair<std::string, std::string>, std::vector<PublicCase>> tests;
  std::map<std::string, std::string, std::less<>> sources;
  for (const Report& r : read_reports()) sources[r.id] = r.source;
  for (const PublicCase& c : public_cases()) {
    std::string source = sources[std::string(c.id)];
    source.resize(std::min(source.size(), source.find_first_of(" ,;")));
    tests[{"case." + std::string(c.op), word_of(c.id) + "_" + word_of(source)}].push_back(c);
  }
  for (const auto& [name, all] : tests)
    testing::RegisterTest(name.first.c_str(), name.second.c_str(), nullptr, nullptr, __FILE__,
                          __LINE__, [all = all]() -> Shown* { return new Shown(all); });
  return true;
}();

}  // namespace
}  // namespace opbound
