// opbound check: tensors in files, judged where one stored value decides.
#include <algorithm>

#include "ops/precision.hpp"
#include "reports/history.hpp"
#include "suites/probe.hpp"
#include "suites/run.hpp"
#include "suites/stored.hpp"
#include "suites/tensor_file.hpp"
#include "tests/program.hpp"

namespace opbound {
namespace {

CaseSpec case_of(std::string_view op, Direction direction, std::string_view precision,
                 Sizes sizes) {
  CaseSpec spec;
  spec.op = find_op(op);
  spec.direction = direction;
  spec.precision = *precision_named(precision);
  spec.attributes = spec.op->default_attributes;
  spec.sizes = sizes;
  return spec;
}

/// The own kernel's tensors.
Prepared run_own(const CaseSpec& spec) {
  Prepared prepared = prepare(spec);
  spec.op->run(prepared.call);
  return prepared;
}

class CheckProgram : public Program {
 protected:
  void write(const std::string& name, const Tensor& tensor) const { write_npy(path(name), tensor); }
  const Tensor& at(const Prepared& prepared, std::string_view name) const {
    return prepared.tensors.find(name)->second;
  }
};

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

const std::string gelu_bf16 = "check --op gelu --precision bf16:fp32:bf16 --in x.npy ";
const std::string gelu_fp32 = "check --op gelu --precision fp32 --in x.npy --out y.npy ";

TEST_F(CheckProgram, accepts_what_our_own_kernel_gives) {
  const CaseSpec spec = case_of("gelu", Direction::forward, "bf16:fp32:bf16", {300});
  const Prepared own = run_own(spec);
  write("x.npy", at(own, "x"));
  write("y.npy", at(own, "y"));
  const Ran ran = opbound(gelu_bf16 + "--out y=y.npy --record r.jsonl");
  EXPECT_EQ(ran.code, 0) << ran.err << ran.out;
  const std::vector<Record> records = read_records(path("r.jsonl"));
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].contract, "erfc|one_plus_erf, any order, functions as CUDA documents");
  EXPECT_EQ(records[0].variant, "erfc|one_plus_erf");
  EXPECT_EQ(records[0].bound_source, "running, any order, union of variants");
  EXPECT_EQ(records[0].output_hash, hash_of(at(own, "y")));
  EXPECT_TRUE(contains(opbound("explain r.jsonl").out, "widest of those of 2 variants"));
  opbound(gelu_bf16 + "--out y=y.npy --variant erfc --record named.jsonl");
  EXPECT_FALSE(contains(opbound("explain named.jsonl").out, "widest"));
}

/// Inputs of tensor cores, rounded to tf32: 2^-12 of a product, which K roundings of fp32 in the
/// worst order also lose from K = 4096 on. In short sums they show.
TEST_F(CheckProgram, finds_tf32_inputs_in_short_sums) {
  for (const std::int64_t k : {1, 4, 16}) {
    const CaseSpec spec = case_of("matmul", Direction::forward, "fp32", {8, 8, k});
    Prepared exact = prepare(spec);
    Prepared rounded = prepare(spec);
    for (const char* name : {"a", "b"}) {
      Tensor& t = rounded.tensors.find(name)->second;
      for (std::int64_t i = 0; i < t.count(); ++i) t.set(i, round_to(tf32, t.at(i)));
    }
    spec.op->run(rounded.call);
    write("a.npy", at(exact, "a"));
    write("b.npy", at(exact, "b"));
    write("d.npy", at(rounded, "d"));
    const Ran ran =
        opbound("check --op matmul --precision fp32 --in a=a.npy --in b=b.npy --out d=d.npy");
    EXPECT_EQ(ran.code, 1) << k << ran.err << ran.out;
    EXPECT_TRUE(contains(ran.out, "exceeds")) << ran.out;
  }
}

// The edge of what is accepted is found by the library; one stored value beyond it is a finding.
TEST_F(CheckProgram, one_element_one_stored_value_beyond_its_bound_is_found_and_named) {
  for (const char* precision : {"fp32", "bf16:fp32:bf16", "fp16:fp32:fp16", "fp64"}) {
    const CaseSpec spec = case_of("gelu", Direction::forward, precision, {300});
    Prepared own = run_own(spec);
    const Contract foreign{{0}, Contract::Order::any, cuda_function_errors, {}};
    constexpr std::int64_t index = 217;
    const auto block = probe_block(spec, own, foreign, 1, index);
    const auto element =
        std::find_if(block.begin(), block.end(), [](const Probed& e) { return e.index == index; });
    const Format format = spec.precision.output;
    const Store store{format, store_rounds(spec.precision.compute, format)};
    const Accepted accepted = accepted_values(element->exact, element->bound, store);
    const std::string words = "check --op gelu --variant erfc --in x.npy --out y.npy --precision " +
                              std::string(precision);
    write("x.npy", at(own, "x"));
    for (const int side : {-1, 1}) {
      const double edge = side < 0 ? accepted.lowest : accepted.highest;
      Tensor y = at(own, "y");
      y.set(index, edge);
      write("y.npy", y);
      EXPECT_EQ(opbound(words).code, 0) << precision;
      y.set(index, value_of(format, ordinal_of(format, edge) + side));
      write("y.npy", y);
      const Ran ran = opbound(words);
      EXPECT_EQ(ran.code, 1) << precision;
      EXPECT_NE(ran.out.find("y[217] exceeds its bound"), std::string::npos) << ran.out;
    }
  }
}

TEST_F(CheckProgram, judges_a_backward_pass_from_the_saved_tensors_of_the_user) {
  const CaseSpec spec = case_of("softmax", Direction::backward_local, "fp32", {6, 40});
  const Prepared own = run_own(spec);
  write_safetensors(
      path("all.safetensors"),
      {{"probabilities", at(own, "y")}, {"dy", at(own, "dy")}, {"dx", at(own, "dx")}});
  const std::string words =
      "check --op softmax --precision fp32 --direction backward_local "
      "--in y=all.safetensors:probabilities --in all.safetensors:dy --out all.safetensors:dx ";
  EXPECT_EQ(opbound(words + "--record r.jsonl").code, 0);
  EXPECT_EQ(opbound(words + "--order own --functions exact --variant division").code, 0);
  EXPECT_NE(opbound("explain r.jsonl").out.find("the same bits"), std::string::npos);
}

TEST_F(CheckProgram, merges_leading_axes) {
  const CaseSpec spec = case_of("softmax", Direction::forward, "fp32", {6, 40});
  const Prepared own = run_own(spec);
  write("x.npy", Tensor(Element::fp32, {2, 3, 40}, at(own, "x").values()));
  write("y.npy", Tensor(Element::fp32, {2, 3, 40}, at(own, "y").values()));
  const Ran ran = opbound("check --op softmax --precision fp32 --in x.npy --out y.npy");
  EXPECT_EQ(ran.code, 0);
  EXPECT_NE(ran.out.find("6x40"), std::string::npos);
}

TEST_F(CheckProgram, an_attribute_decides_which_algorithms_are_right) {
  const CaseSpec spec = case_of("gelu", Direction::forward, "fp32", {300});
  const Prepared own = run_own(spec);
  write("x.npy", at(own, "x"));
  write("y.npy", at(own, "y"));
  EXPECT_EQ(opbound(gelu_fp32).code, 0);
  EXPECT_EQ(opbound(gelu_fp32 + "--attribute approximate=tanh").code, 1);
}

TEST_F(CheckProgram, refuses_files_that_do_not_fit_in_one_line) {
  const CaseSpec spec = case_of("gelu", Direction::forward, "fp32", {300});
  const Prepared own = run_own(spec);
  write("x.npy", at(own, "x"));
  write("y.npy", at(own, "y"));
  write("y64.npy", Tensor(Element::fp64, {300}, at(own, "y").values()));
  write("other.npy", Tensor(Element::fp32, {150, 2}, at(own, "y").values()));
  write("none.npy", Tensor(Element::fp32, {0}));
  put("empty.npy", "");
  put("truncated.npy", get("y.npy").substr(0, 500));
  put("header.npy", std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12) + "{");
  put("header.safetensors", std::string(8, '\x7f'));
  put("y.txt", "0.5\n");
  const std::string words = "check --op gelu --precision fp32 --in x.npy --out ";
  for (const char* file :
       {"y64.npy", "other.npy", "empty.npy", "truncated.npy", "header.npy", "header.safetensors",
        "y.txt", "missing.npy", ".", "z=y.npy", "header.safetensors:y"})
    refusal(words + file);
  refusal("check --op gelu --precision fp32 --in none.npy --out none.npy");
}

TEST_F(CheckProgram, refuses_wrong_words_in_one_line) {
  const CaseSpec spec = case_of("gelu", Direction::forward, "fp32", {300});
  const Prepared own = run_own(spec);
  write("x.npy", at(own, "x"));
  write("y.npy", at(own, "y"));
  for (const char* words :
       {"--attribute approximate=sin", "--attribute approx=tanh", "--attribute tanh",
        "--variant sigmoid", "--variant erf", "--direction sideways", "--order reverse",
        "--functions fast", "--direction backward_full", "--in y=y.npy", "--out x=x.npy",
        "--record /dev/null/r.jsonl"})
    refusal(gelu_fp32 + words);
  refusal("check --op gleu --precision fp32 --in x.npy --out y.npy");
  refusal("check --op gelu --precision fp33 --in x.npy --out y.npy");
  refusal("check --op gelu --precision tf32 --in x.npy --out y.npy");
}

}  // namespace
}  // namespace opbound
