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
  /// This check finds nothing, nor does the command that `explain` makes of its record.
  void expect_clean_twice(const std::string& words) const {
    EXPECT_EQ(opbound(words + " --record once.jsonl").code, 0) << words << get("err.txt");
    const std::string text = opbound("explain once.jsonl").out;
    const std::size_t at = text.find("check --op");
    ASSERT_NE(at, std::string::npos) << text;
    const std::string command = text.substr(at, text.find('\n', at) - at);
    EXPECT_EQ(opbound(command).code, 0) << command << get("err.txt");
    std::filesystem::remove(path("once.jsonl"));
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

TEST_F(CheckProgram, takes_several_files_after_one_option) {
  const CaseSpec spec = case_of("swiglu", Direction::forward, "fp32", {300});
  const Prepared own = run_own(spec);
  for (const char* name : {"gate", "up", "y"}) write(std::string(name) + ".npy", at(own, name));
  const std::string words = "check --op swiglu --precision fp32 ";
  EXPECT_EQ(opbound(words + "--in gate=gate.npy up=up.npy --out y.npy").code, 0);
  EXPECT_EQ(opbound(words + "--in gate.npy up.npy --out y.npy").code, 0);
  EXPECT_EQ(opbound(words + "--in up=up.npy --out y=y.npy --in gate=gate.npy").code, 0);
  EXPECT_NE(refusal(words + "--in gate.npy up.npy y.npy --out y.npy").find("one file too many"),
            std::string::npos);
  EXPECT_NE(opbound("check --help").out.find("several after one --in"), std::string::npos);
}

/// The tensors of a cross entropy of 6 rows and 10 classes as files, its targets as `element`.
class CheckIndices : public CheckProgram {
 protected:
  void write_all(Element element, std::int64_t place = 0, std::int64_t target = 3) const {
    CaseSpec spec = op_case();
    Tensors given;
    Tensor& targets = given["targets"] = Tensor(Element::int64, {6});
    for (std::int64_t i = 0; i < 6; ++i) targets.set(i, static_cast<double>(i));
    targets.set(place, static_cast<double>(target));
    Prepared prepared = prepare(spec, std::move(given));
    spec.op->run(prepared.call);
    write("x.npy", at(prepared, "logits"));
    write("loss.npy", at(prepared, "loss"));
    write("t.npy", Tensor(element, {6}, at(prepared, "targets").values()));
  }
  static CaseSpec op_case() {
    return case_of("cross_entropy", Direction::forward, "fp32", {6, 10, 1});
  }
  const std::string words_ =
      "check --op cross_entropy --precision fp32 --in logits=x.npy targets=t.npy "
      "--out loss=loss.npy ";
};

TEST_F(CheckIndices, are_int64_or_int32) {
  for (const Element e : {Element::int64, Element::int32}) {
    write_all(e, 2, 7);
    EXPECT_EQ(opbound(words_).code, 0) << name_of(e);
  }
  write_all(Element::fp32);
  EXPECT_EQ(refusal(words_),
            "opbound: --in targets[rows] in int64: t.npy: holds fp32, expected int64 or int32\n");
}

/// Unsigned ones would be taken for others where they are large.
TEST_F(CheckIndices, are_signed) {
  write_all(Element::int64, 2, 7);
  std::string file = get("t.npy");
  put("t.npy", file.replace(file.find("<i8"), 3, "<u8"));
  EXPECT_EQ(refusal(words_),
            "opbound: --in targets[rows] in int64: t.npy: element type '<u8', expected int64 "
            "('<i8') or int32 ('<i4')\n");
}

TEST_F(CheckIndices, outside_of_their_range_are_the_users_mistake) {
  for (const std::int64_t target : {10, -1, 70000}) {
    write_all(Element::int32, 4, target);
    EXPECT_EQ(refusal(words_), "opbound: --in targets[rows] in int64: t.npy: element [4] is " +
                                   std::to_string(target) +
                                   ", expected 0 to 9, or -100 (attribute ignore_index)\n");
  }
  write_all(Element::int64, 4, -100);
  EXPECT_EQ(opbound(words_).code, 0) << "an ignored row";
}

TEST_F(CheckProgram, segments_keep_the_meaning_of_what_is_outside) {
  const auto given = [&](const char* by, const char* name, std::vector<double> values) {
    CaseSpec spec = case_of("segmented_sum", Direction::forward, "fp32", {4, 3, 2, 3});
    for (const AttributeSpec& a : spec.op->attributes) a.set(spec.attributes, std::string(by));
    Tensors tensors;
    const auto n = static_cast<std::int64_t>(values.size());
    tensors[name] = Tensor(Element::int64, {n}, values);
    Prepared prepared = prepare(spec, std::move(tensors));
    spec.op->run(prepared.call);
    write("x.npy", at(prepared, "x"));
    write("y.npy", at(prepared, "y"));
    write("i.npy", at(prepared, name));
    return "check --op segmented_sum --precision fp32 --attribute by=" + std::string(by) +
           " --in x=x.npy " + name + "=i.npy --out y.npy" +
           (std::string(by) == "ids" ? "" : " --size segments=2");  // ends: of offsets alone
  };
  expect_clean_twice(given("ids", "ids", {0, 1, -1, 7}));
  expect_clean_twice(given("offsets", "offsets", {0, 2, 4}));
  EXPECT_NE(
      refusal(given("offsets", "offsets", {0, 2, 5})).find("element [2] is 5, expected 0 to 4"),
      std::string::npos);
}

TEST_F(CheckProgram, adamw_without_found_inf_skips_no_step) {
  CaseSpec spec = case_of("adamw", Direction::forward, "fp32", {2, 40});
  spec.inputs.emplace_back("found_inf", InputSpec{"mask", {{"p", 0}}, {}, {}});
  spec.inputs.emplace_back("v", InputSpec{"uniform", {{"low", 0}, {"high", 1}}, {}, {}});
  const Prepared own = run_own(spec);
  for (const char* name : {"w", "g", "m", "v", "next_w"})
    write(std::string(name) + ".npy", at(own, name));
  const std::string words =
      "check --op adamw --precision fp32 --out next_w=next_w.npy --record r.jsonl "
      "--in w=w.npy g=g.npy m=m.npy ";
  EXPECT_EQ(opbound(words + "v=v.npy").code, 0);
  expect_clean_twice(
      "check --op adamw --precision fp32 --out next_w=next_w.npy --in w=w.npy "
      "g=g.npy m=m.npy v=v.npy");
  EXPECT_NE(get("r.jsonl").find("found_inf=mask(p=0)"), std::string::npos);
  EXPECT_EQ(refusal(words),
            "opbound: --in v[n] in fp32 (attribute state_format): no file, expected v=FILE\n");
}

/// What a stranger's wrong files meet: which tensor, what is there, what belongs there.
TEST_F(CheckProgram, says_which_tensor_a_wrong_file_was_for) {
  write("n.npy", Tensor(Element::fp32, {40}));
  write("low.npy", Tensor(Element::bf16, {40}));
  write("steps.npy", Tensor(Element::fp32, {2, 40}));
  write("q.npy", Tensor(Element::fp32, {2, 3, 8}));
  write("k.npy", Tensor(Element::fp32, {2, 5, 4}));
  write("table.npy", Tensor(Element::fp32, {10, 4}));
  write("i.npy", Tensor(Element::int32, {3}, std::vector<double>{0, 1, 9}));
  const auto says = [&](const std::string& words, const std::string& what) {
    EXPECT_EQ(refusal("check --precision fp32 " + words), "opbound: " + what + "\n");
  };
  const std::string adamw = "--op adamw --out next_w=steps.npy --in w=n.npy ";
  says(adamw + "g=n.npy m=n.npy v=n.npy",
       "--in g[steps, n] in fp32 (the storage format): n.npy: a tensor of shape (40), expected 2 "
       "axes or more");
  says(adamw + "g=steps.npy m=low.npy v=n.npy",
       "--in m[n] in fp32 (attribute state_format): low.npy: holds bf16, expected fp32");
  says("--op embedding --out y=n.npy --in table=table.npy index=i.npy",
       "--out y[tokens, width] in fp32 (the output format): n.npy: a tensor of shape (40), "
       "expected 2 axes or more");
  says("--op embedding --out y=table.npy --in table=table.npy index=i.npy",
       "--out y[tokens, width] in fp32 (the output format): table.npy: tokens = 10, expected "
       "tokens = 3 as in i.npy");
  says("--op attention --out o=q.npy --in q=q.npy k=k.npy v=k.npy",
       "--in k[kv_heads, keys, d] in fp32 (the storage format): k.npy: d = 4, expected d = 8 as "
       "in q.npy");
  says("--op attention --out o=q.npy --in q=q.npy k=q.npy v=q.npy mask=n.npy",
       "--in: 'mask=n.npy': mask takes no part with these attributes, expected TENSOR=FILE with "
       "one of q, k, v");
  says("--op attention --out o=q.npy --in q=q.npy k=q.npy v=q.npy o=q.npy",
       "--in: 'o=q.npy': o is none of them in direction forward, expected TENSOR=FILE with one of "
       "q, k, v");
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
