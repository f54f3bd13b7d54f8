// The detection table: the rules of others do what their sources say, rows and counts are what they
// claim, and a fault that is not there, or an alarm that is, shows.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <regex>

#include "reports/error.hpp"
#include "suites/input.hpp"
#include "tests/detection/alarms.hpp"
#include "tests/detection/planted.hpp"
#include "tests/faulty_provider.hpp"
#include "tests/program.hpp"

namespace opbound {
namespace {

using detection::Observation;
using detection::Planted;

constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

const Rival& rival_named(std::string_view name) {
  for (const Rival& r : rivals())
    if (r.name == name) return r;
  throw std::invalid_argument(std::string(name));
}

/// A case whose inputs are 1 where they are not given, and an output to be judged.
struct Asked {
  CaseSpec spec;
  Prepared prepared;
  RivalOutput out;

  Asked(std::string_view op, std::string_view precision, const std::vector<std::int64_t>& shape,
        std::string_view tensor, Element element, Direction direction = Direction::forward,
        const Attributes& attributes = {})
      : spec(case_of(op, direction, precision, shape, attributes)) {
    for (const TensorSpec& t : spec.op->pass(direction).tensors)
      if (t.role == Role::in) spec.inputs.emplace_back(t.name, parse_input("constant(value=1)"));
    prepared = prepare(spec);
    out.tensor = tensor;
    out.element = element;
  }

  RivalAnswer by(std::string_view rule, std::vector<double> got, std::vector<double> right) {
    out.columns = std::ssize(got);
    out.got = std::move(got);
    out.exact = out.expected = std::move(right);
    return rival_named(rule).judge({spec.op, &prepared.call, spec.precision}, out);
  }
  bool accepts(std::string_view rule, double got, double right) {
    const RivalAnswer a = by(rule, {got, right}, {right, right});
    EXPECT_TRUE(a.applies()) << rule << ": " << a.why_not;
    EXPECT_EQ(a.flagged, a.accepts ? 0U : 1U);
    return a.accepts;
  }
};

TEST(Rivals, NameTheirSources) {
  for (const Rival& r : rivals()) {
    const std::string sources(r.sources);
    EXPECT_TRUE(std::regex_search(sources, std::regex("[A-Za-z-]+/[A-Za-z-]+"))) << r.name;
    EXPECT_TRUE(std::regex_search(sources, std::regex(" [0-9a-f]{8}"))) << r.name;
    EXPECT_FALSE(r.what.empty()) << r.name;
  }
}

TEST(Rivals, AssertClose) {
  Asked fp32_of("bias", "fp32", {1, 2}, "y", Element::fp32);
  EXPECT_TRUE(fp32_of.accepts("assert_close", 1 + 1.12e-5, 1));
  EXPECT_FALSE(fp32_of.accepts("assert_close", 1 + 1.14e-5, 1));
  EXPECT_TRUE(fp32_of.accepts("assert_close", 9e-6, 0));
  EXPECT_TRUE(fp32_of.accepts("assert_close", nan_value, nan_value));
  EXPECT_FALSE(fp32_of.accepts("assert_close", nan_value, 1));
  EXPECT_TRUE(fp32_of.accepts("assert_close", infinity, infinity));
  EXPECT_FALSE(fp32_of.accepts("assert_close", infinity, -infinity));
  EXPECT_FALSE(fp32_of.accepts("assert_close", 1e30, infinity));
  Asked bf16_of("bias", "bf16:fp32:bf16", {1, 2}, "y", Element::bf16);
  EXPECT_TRUE(bf16_of.accepts("assert_close", 1.015625, 1));
  EXPECT_FALSE(bf16_of.accepts("assert_close", 1.0234375, 1));
  Asked fp8_of("cast", "bf16:fp32:e4m3", {2}, "y", Element::e4m3);
  EXPECT_FALSE(fp8_of.accepts("assert_close", 1.125, 1)) << "no figures: equality";
}

TEST(Rivals, TransformerEngine) {
  Asked gelu_of("gelu", "bf16:fp32:e4m3", {2}, "y", Element::e4m3);
  EXPECT_TRUE(gelu_of.accepts("TransformerEngine", 1.125, 1)) << "the other neighbour";
  EXPECT_FALSE(gelu_of.accepts("TransformerEngine", 1.25, 1));
  EXPECT_TRUE(gelu_of.accepts("TransformerEngine", nan_value, 1)) << "compares false";
  Asked norm_of("layer_norm", "fp32", {1, 2}, "y", Element::fp32);
  EXPECT_TRUE(norm_of.accepts("TransformerEngine", 1 + 4.9e-6, 1));
  EXPECT_FALSE(norm_of.accepts("TransformerEngine", 1 + 5.2e-6, 1));
  EXPECT_TRUE(norm_of.accepts("TransformerEngine", 4.9e-7, 1e-9)) << "either figure suffices";
  Asked product_of("matmul", "fp32", {1, 2, 1}, "d", Element::fp32);
  EXPECT_TRUE(product_of.accepts("TransformerEngine", 1 + 1e-3, 1)) << "as a product in tf32";
  EXPECT_FALSE(product_of.accepts("TransformerEngine", 1 + 1.1e-3, 1));
  Asked softmax_of("softmax", "fp32", {1, 2}, "y", Element::fp32);
  EXPECT_FALSE(softmax_of.by("TransformerEngine", {1}, {1}).applies());
}

TEST(Rivals, ApexAndLiger) {
  Asked norm_of("rms_norm", "bf16:fp32:bf16", {1, 2}, "y", Element::bf16);
  EXPECT_TRUE(norm_of.accepts("Liger", 1.1875, 1));
  EXPECT_FALSE(norm_of.accepts("Liger", 1.375, 1));
  EXPECT_FALSE(norm_of.accepts("apex", 1.0234375, 1));
  Asked swiglu_of("swiglu", "bf16:fp32:bf16", {2}, "y", Element::bf16);
  EXPECT_TRUE(swiglu_of.accepts("Liger", 9984, 1)) << "an absolute tolerance of 1e4";
  EXPECT_FALSE(swiglu_of.by("apex", {1}, {1}).applies());
  Asked adamw_of("adamw", "fp32", {1, 2}, "next_w", Element::fp32);
  EXPECT_TRUE(adamw_of.accepts("apex", 1e-3, 0));
  EXPECT_FALSE(adamw_of.accepts("apex", 1.01e-3, 0));
  EXPECT_FALSE(adamw_of.by("Liger", {1}, {1}).applies());
}

/// |A| = |B| = 20 in the norm of hipDNN's own tests, k = 10: T = gamma_10 400, then T + T |right|.
TEST(Rivals, HipdnnProduct) {
  Asked product_of("matmul", "fp32", {2, 10, 10}, "d", Element::fp32);
  Tensor& a = product_of.prepared.tensors.find("a")->second;
  Tensor& b = product_of.prepared.tensors.find("b")->second;
  a.fill(2);
  b.fill(2);
  const double nu = 2 * 10 * 0x1p-23, t = nu / (1 - nu) * 400;
  EXPECT_TRUE(product_of.accepts("hipDNN", 1 + 2 * t * (1 - 1e-6), 1));
  EXPECT_FALSE(product_of.accepts("hipDNN", 1 + 2 * t * (1 + 1e-6), 1));
  EXPECT_FALSE(product_of.accepts("hipDNN", nan_value, 1));
  EXPECT_TRUE(product_of.accepts("hipDNN", infinity, nan_value)) << "neither is a number";
  Asked scaled("matmul", "fp32", {1, 2, 1}, "d", Element::fp32, Direction::forward,
               {{"alpha", 2.0}});
  EXPECT_FALSE(scaled.by("hipDNN", {1}, {1}).applies());
}

/// y within (gamma_2n + 5 u) / 2-like figures of a scale of 1 and a bias of 1.
TEST(Rivals, HipdnnNormAndPointwise) {
  Asked norm_of("layer_norm", "fp32", {1, 4}, "y", Element::fp32);
  const double u = 0x1p-23, nu = 2 * 8 * u, t = nu / (1 - nu) / 2 + 5 * u + u;
  EXPECT_TRUE(norm_of.accepts("hipDNN", t * (1 - 1e-6), 0));
  EXPECT_FALSE(norm_of.accepts("hipDNN", t * (1 + 1e-6), 0));
  Asked gelu_of("gelu", "bf16:fp32:bf16", {2}, "y", Element::bf16);
  const double of_gelu = 16 * u + 0x1p-7;
  EXPECT_TRUE(gelu_of.accepts("hipDNN", of_gelu * (1 - 1e-6), 0));
  EXPECT_FALSE(gelu_of.accepts("hipDNN", of_gelu * (1 + 1e-6), 0));
}

/// What PyTorch gives in 16 bits passes; what errs by more than twice as much does not.
TEST(Rivals, TwicePytorch) {
  CaseSpec spec = case_of("attention", Direction::forward, "bf16:fp32:bf16", {2, 1, 3, 5, 4}, {});
  for (const char* tensor : {"q", "k", "v"})
    spec.inputs.emplace_back(tensor, parse_input("normal"));
  Observation seen = detection::observe(spec, *own_host_provider(), prepare(spec));
  const Rival& rule = rival_named("2x PyTorch");
  RivalOutput& o = seen.outputs.at(0);
  ASSERT_EQ(o.tensor, "o");
  EXPECT_TRUE(rule.judge(seen.rival_case(), o).accepts);
  const std::vector<double> torch = detail::attention_in_16_bits(seen.rival_case(), "o");
  double allowed = 0;
  for (std::size_t i = 0; i < torch.size(); ++i)
    allowed = std::fmax(allowed, 2 * std::fabs(torch[i] - o.expected[i]));
  EXPECT_GT(allowed, 0) << "PyTorch errs in 16 bits";
  EXPECT_LT(allowed, 0.1) << "and by no more than roundings";
  o.got = torch;
  EXPECT_TRUE(rule.judge(seen.rival_case(), o).accepts);
  o.got[3] = o.expected[3] + 1.5 * allowed;
  EXPECT_EQ(rule.judge(seen.rival_case(), o).flagged, 1U);
  EXPECT_FALSE(rule.judge(seen.rival_case(), seen.outputs.at(1)).applies()) << "lse";
}

TEST(Rivals, CosineAndDivergence) {
  Asked bias_of("bias", "fp32", {1, 2}, "y", Element::fp32);
  EXPECT_TRUE(bias_of.by("cosine 0.99", {2, 4}, {1, 2}).accepts) << "a factor is not seen";
  EXPECT_FALSE(bias_of.by("cosine 0.99", {2, 1}, {1, 2}).accepts);
  EXPECT_FALSE(bias_of.by("cosine 0.99", {nan_value, 2}, {1, 2}).accepts);
  EXPECT_FALSE(bias_of.by("cosine 0.99", {1}, {1}).applies());
  EXPECT_FALSE(bias_of.by("cosine 0.99", {1, 1}, {0, 0}).applies());
  EXPECT_FALSE(bias_of.by("KL 1e-3", {1, 2}, {1, 2}).applies());
  Asked softmax_of("softmax", "fp32", {1, 2}, "y", Element::fp32);
  EXPECT_TRUE(softmax_of.by("KL 1e-3", {0.26, 0.74}, {0.25, 0.75}).accepts);
  EXPECT_FALSE(softmax_of.by("KL 1e-3", {0.3, 0.7}, {0.25, 0.75}).accepts);
  EXPECT_FALSE(softmax_of.by("KL 1e-3", {0, 1}, {0.25, 0.75}).accepts);
}

TEST(Observe, RoundsOnce) {
  const auto exactly = [](double high, double low) {
    return Exact{high, low, 0, Exact::Class::finite};
  };
  EXPECT_EQ(detection::rounded_once(bf16, exactly(1 + 0x1p-8, 0)), 1) << "a tie";
  EXPECT_EQ(detection::rounded_once(bf16, exactly(1 + 0x1p-8, 0x1p-70)), 1 + 0x1p-7);
  EXPECT_EQ(detection::rounded_once(bf16, exactly(1 + 0x3p-8, -0x1p-70)), 1 + 0x1p-7);
  EXPECT_EQ(detection::rounded_once(fp64, exactly(1, 0x1p-60)), 1);
  EXPECT_EQ(detection::rounded_once(fp16, exactly(1e6, 0)), infinity);
  EXPECT_TRUE(std::isnan(detection::rounded_once(e4m3, exactly(1e6, 0))));
}

// ---- rows

/// Kernels of bias: right, and 1% too large.
Planted planted_as(bool is_faulty, bool control_is_faulty) {
  return {"op", "bias", "named", "what", [=](bool is_planted) {
            CaseSpec spec = case_of("bias", Direction::forward, "fp32", {3, 4}, {});
            spec.inputs = {{"x", parse_input("normal")}, {"b", parse_input("normal")}};
            const bool errs = is_planted ? is_faulty : control_is_faulty;
            const Kernel kernel = [errs](const Op& op, const Call& call) {
              op.run(call);
              const TensorView& y = call.forward[2];
              if (errs) y.set(5, round_to(fp32, 1.01 * y.at(5)));
            };
            return detection::observe(spec, FaultyProvider("bias", kernel), prepare(spec));
          }};
}

TEST(Power, RowsTellWhatWasSeen) {
  const PowerRow row = detection::row_of(planted_as(true, false));
  EXPECT_EQ(row.detection, Detection::caught);
  EXPECT_EQ(row.found_by, "y");
  EXPECT_EQ(row.elements, 12U);
  EXPECT_EQ(row.shape, "3x4");
  ASSERT_EQ(row.rules.size(), rivals().size());
  EXPECT_EQ(row.rules[0].rule, "assert_close");
  EXPECT_EQ(row.rules[0].detection, Detection::caught);
  EXPECT_EQ(row.rules[0].flagged, 1U);
  EXPECT_EQ(row.rules[0].control_flagged, 0U);
  EXPECT_EQ(row.rules[6].rule, "cosine 0.99");
  EXPECT_EQ(row.rules[6].detection, Detection::missed);
  EXPECT_EQ(row.rules[3].detection, Detection::not_for);
  EXPECT_FALSE(row.rules[3].why_not.empty());
}

TEST(Power, WhatIsNotFoundIsMissedAndWhatIsAlwaysRefusedIsNotFound) {
  EXPECT_EQ(detection::row_of(planted_as(false, false)).detection, Detection::missed);
  const PowerRow both = detection::row_of(planted_as(true, true));
  EXPECT_EQ(both.detection, Detection::both);
  EXPECT_EQ(both.rules[0].detection, Detection::both);
  PowerTable table;
  table.rows = {both};
  EXPECT_FALSE(table.is_perfect());
}

TEST(Power, EveryFaultIsCaught) {
  const std::vector<Planted> all = detection::all_planted();
  EXPECT_GT(all.size(), 390U);
  const char* text = std::getenv("OPBOUND_SAMPLE");  // the sanitizers' build is slow
  const std::size_t step = text == nullptr ? 1 : std::max(1L, std::strtol(text, nullptr, 10));
  for (std::size_t i = 0; i < all.size(); i += step) {
    const PowerRow row = detection::row_of(all[i]);
    EXPECT_EQ(row.detection, Detection::caught) << row.family << " " << row.op << " " << row.name;
  }
}

// ---- right kernels

std::vector<CaseSpec> two_cases() {
  CaseSpec spec = case_of("bias", Direction::forward, "fp32", {3, 4}, {});
  spec.inputs = {{"x", parse_input("normal")}, {"b", parse_input("normal")}};
  CaseSpec other = spec;
  other.inputs = {{"x", parse_input("constant(value=3)")}, {"b", parse_input("special")}};
  return {spec, other};
}

TEST(Alarms, ClassesOfInputs) {
  const std::vector<CaseSpec> cases = two_cases();
  EXPECT_EQ(detection::class_of(cases[0]), "ordinary");
  EXPECT_EQ(detection::class_of(cases[1]), "hard");
  EXPECT_TRUE(detection::depends_on_seed(cases[0]));
  EXPECT_FALSE(detection::depends_on_seed(cases[1]));
  CaseSpec far = cases[0];
  far.inputs[0].second = parse_input("normal(mean=1, sigma=1e-4)");
  EXPECT_EQ(detection::class_of(far), "hard");
  CaseSpec low = cases[0];
  low.precision = *precision_named("bf16");
  EXPECT_EQ(detection::class_of(low), "hard");
  CaseSpec narrow =
      case_of("cast", Direction::forward, "fp32", {8}, {{"through", std::string("bf16")}});
  EXPECT_EQ(detection::class_of(narrow), "other algorithm");
}

/// 24 elements, then 12 in each further round: the other case is the same with any seed.
TEST(Alarms, RoundsAndThreads) {
  detection::AlarmOptions options;
  options.elements = 50;
  const detection::Alarms one = detection::alarms_of(two_cases(), options);
  EXPECT_EQ(one.rounds, 4U);
  EXPECT_EQ(one.elements, 60U);
  EXPECT_EQ(one.counts.front().flagged_cases, 0U);
  options.workers = 3;
  EXPECT_EQ(detection::alarms_of(two_cases(), options).counts, one.counts);
}

TEST(Alarms, AreCounted) {
  detection::AlarmOptions options;
  options.provider = std::make_shared<FaultyProvider>("wrong", [](const Op& op, const Call& call) {
    op.run(call);
    for (std::int64_t i = 0; i < 2; ++i) call.forward[2].set(i, call.forward[2].at(i) + 1);
  });
  const std::vector<CaseSpec> cases = two_cases();
  PowerTable table;
  table.alarms = detection::alarms_of(std::span(cases).first(1), options).counts;
  for (const AlarmCount& a : table.alarms) {
    if (a.rule != own_rule && a.rule != "assert_close") continue;
    EXPECT_EQ(a.flagged_cases, 1U) << a.rule;
    EXPECT_EQ(a.flagged_elements, 2U) << a.rule;
    EXPECT_EQ(a.elements, 12U) << a.rule;
  }
  EXPECT_FALSE(table.is_perfect());
}

TEST(Alarms, EndWhenTheyAreTold) {
  detection::AlarmOptions options;
  options.goes_on = [] { return false; };
  EXPECT_FALSE(detection::alarms_of(two_cases(), options).is_whole);
}

// ---- files and the program

class PowerFile : public Program {
 protected:
  static PowerTable table() {
    PowerTable t;
    t.commit = "0123456789ab";
    t.cases = "quick tier";
    t.rows = {detection::row_of(planted_as(true, false))};
    t.rows.front().ratio = infinity;
    t.alarms = {{"bias", "ordinary", "opbound", 3, 0, 36, 0},
                {"bias", "hard", "apex", 3, 1, 36, 7}};
    return t;
  }
};

TEST_F(PowerFile, IsReadAsItWasWritten) {
  const std::string path = put("p.jsonl", to_json_lines({}) + to_json_lines(table()));
  EXPECT_EQ(read_power(path), table()) << "the last run of the file";
}

TEST_F(PowerFile, RefusesWhatIsNoSuchFile) {
  const std::string head = to_json_lines({});
  const auto refused = [&](const std::string& text) {
    try {
      read_power(put("p.jsonl", text));
    } catch (const InputError& e) {
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  EXPECT_NE(refused("").find("no detection table"), std::string::npos);
  EXPECT_NE(refused("{\n").find("p.jsonl:1: not JSON"), std::string::npos);
  EXPECT_NE(refused(head + "{\"kind\":\"right\"}\n").find(":2: no op"), std::string::npos);
  EXPECT_NE(refused("{\"kind\":\"right\"}\n").find("before it"), std::string::npos);
  EXPECT_NE(refused(head + "{\"kind\":\"new\"}\n").find("kind 'new'"), std::string::npos);
  EXPECT_NE(refused("{\"kind\":\"power\",\"schema\":2}\n").find("schema"), std::string::npos);
  const std::string more = head.substr(0, head.size() - 2) + ",\"more\":1}\n";
  EXPECT_NE(refused(more).find("unknown field"), std::string::npos);
}

TEST_F(PowerFile, IsShownAgain) {
  put("p.jsonl", to_json_lines(table()));
  const Ran page = opbound("power --records p.jsonl --markdown");
  EXPECT_EQ(page.code, 0) << page.err;
  for (const char* words : {"| opbound", "| bias | named: what |", "Liger-Kernel", "1 of 1 faults"})
    EXPECT_NE(page.out.find(words), std::string::npos) << words;
  const Ran plot = opbound("power --records p.jsonl --svg");
  EXPECT_TRUE(plot.out.starts_with("<svg xmlns=")) << plot.out;
  PowerTable missing = table();
  missing.rows.front().detection = Detection::missed;
  put("m.jsonl", to_json_lines(missing));
  const Ran missed = opbound("power --records m.jsonl");
  EXPECT_EQ(missed.code, 1);
  EXPECT_NE(missed.out.find("0 of 1 faults caught"), std::string::npos) << missed.out;
  EXPECT_NE(missed.out.find("named"), std::string::npos) << "no row is hidden";
}

TEST_F(PowerFile, RunsForOneOperator) {
  const Ran ran = opbound("power --faults --op unscale --all --out p.jsonl");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.out.find("reciprocal_for_division"), std::string::npos) << ran.out;
  EXPECT_EQ(opbound("power --records p.jsonl --all").out, ran.out);
  EXPECT_NE(refusal("power --op geluu").find("geluu"), std::string::npos);
  EXPECT_NE(refusal("power --records none.jsonl").find("none.jsonl"), std::string::npos);
  EXPECT_NE(refusal("power --faults --out no/p.jsonl").find("no/p.jsonl"), std::string::npos);
}

}  // namespace
}  // namespace opbound
