// opbound reveal, and the sharper bound of an order that was found.
#include "ops/matmul.hpp"
#include "reports/history.hpp"
#include "suites/reveal_file.hpp"
#include "suites/run.hpp"
#include "suites/tensor_file.hpp"
#include "tests/attack_kernels.hpp"
#include "tests/program.hpp"

namespace opbound {
namespace {

const std::string dots = std::string(OPBOUND_PLUGINS) + "/dot.so";
const std::string product = "reveal matmul --precision fp32 --size m=3 --size k=40 --provider ";

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

class ProgramReveal : public Program {
 protected:
  std::vector<Record> run(const std::string& words) const {
    put("matmul.toml",
        "op = \"matmul\"\n[[case]]\nprecision = \"fp32\"\nvariant = \"sequential\"\n"
        "shape = [[5, 4, 200]]\n");
    std::filesystem::remove(path("r.jsonl"));
    const Ran ran = shell(words + " --out r.jsonl --provider " + dots);
    EXPECT_EQ(ran.code, 0) << ran.out << ran.err;
    return read_records(path("r.jsonl"));
  }
};

/// Eight lanes of five terms, then three additions: 4 + 3.
TEST_F(ProgramReveal, finds_the_order_of_a_plugin) {
  const Ran ran = opbound(product + dots + " --out order.json");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(contains(ran.out, "height     7 additions, of 39 at most")) << ran.out;
  EXPECT_TRUE(contains(ran.out, "replayed   yes, every bit of 24 elements\n")) << ran.out;
  EXPECT_TRUE(contains(ran.out, "run again: yes; inputs unaligned: yes; a row alone: yes"));
  const SumTree tree = read_order_file(path("order.json")).tree;
  EXPECT_EQ(tree.leaves, 40);
  EXPECT_EQ(height(tree), 7);
  EXPECT_TRUE(contains(refusal(product + dots + " --out order.json"), "is there already"));
}

TEST_F(ProgramReveal, an_order_that_depends_on_data_is_not_taken_for_one) {
  const Ran ran = shell("OPBOUND_TEST_ORDER=data " OPBOUND_PROGRAM " " + product + dots);
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_FALSE(contains(ran.out, "replayed   yes")) << ran.out;
  EXPECT_FALSE(contains(ran.out, "bound ")) << ran.out;
  const auto records = run("OPBOUND_TEST_ORDER=data " OPBOUND_PROGRAM " run matmul.toml --reveal");
  EXPECT_EQ(records.at(0).contract, "sequential, any order, functions as CUDA documents");
}

TEST_F(ProgramReveal, what_changes_the_bits_is_told) {
  const auto answers = [&](const char* order) {
    const std::string text =
        shell("OPBOUND_TEST_ORDER=" + std::string(order) + " " OPBOUND_PROGRAM " " + product + dots)
            .out;
    return text.substr(std::min(text.find("same bits"), text.size()));
  };
  EXPECT_TRUE(contains(answers("again"), "run again: no")) << answers("again");
  EXPECT_TRUE(contains(answers("alone"), "again: yes; inputs unaligned: yes; a row alone: no"));
  EXPECT_TRUE(contains(answers("unaligned"), "again: yes; inputs unaligned: no"));
}

TEST_F(ProgramReveal, a_found_order_has_a_sharper_bound) {
  const Record any = run(OPBOUND_PROGRAM " run matmul.toml").at(0);
  const Record found = run(OPBOUND_PROGRAM " run matmul.toml --reveal").at(0);
  EXPECT_EQ(found.contract, "sequential, revealed tree, functions as CUDA documents");
  EXPECT_EQ(found.verdict, Verdict::within);
  EXPECT_EQ(any.verdict, Verdict::within);
  EXPECT_EQ(any.output_hash, found.output_hash);
  EXPECT_GT(*found.ratio, 4 * *any.ratio);  // 27 additions in place of 199, and a product each
  EXPECT_LT(*found.acceptable_mean, *any.acceptable_mean / 4);
}

/// An error that a kernel of another order might make.
TEST_F(ProgramReveal, a_file_is_judged_along_the_order) {
  CaseSpec spec = attack::case_for("matmul", Direction::forward, "fp32", {1, 1, 40});
  Prepared p = prepare(spec);
  ASSERT_EQ(opbound(product + dots + " --out order.json").code, 0);
  const SumTree tree = read_order_file(path("order.json")).tree;
  spec.op->run_along(p.call, tree, Products::rounded);
  const Tensor &a = p.tensors.find("a")->second, &b = p.tensors.find("b")->second;
  Tensor d = p.tensors.find("d")->second;
  double magnitude = 0;
  for (std::int64_t k = 0; k < 40; ++k) magnitude += std::fabs(a.at(k) * b.at(k));
  write_npy(path("a.npy"), a);
  write_npy(path("b.npy"), b);
  write_npy(path("d.npy"), d);
  const std::string check =
      "check --op matmul --variant sequential --precision fp32 --in a.npy b.npy --out d.npy ";
  EXPECT_EQ(opbound(check + "--order order.json --record r.jsonl").code, 0);
  const std::string text = opbound("explain r.jsonl").out;
  EXPECT_TRUE(contains(text, "--order order.json")) << text;
  d.set(0, d.at(0) + 20 * 0x1p-24 * magnitude);
  write_npy(path("d.npy"), d);
  EXPECT_EQ(opbound(check + "--order order.json").code, 1);
  EXPECT_EQ(opbound(check + "--order any").code, 0);
}

/// Steps of a matrix unit: the same products off by more than these steps, by less than any order.
TEST_F(ProgramReveal, a_matrix_units_order_is_judged_step_by_step) {
  const std::string words =
      "reveal matmul --precision bf16:fp32:fp32 --variant hopper --size m=3 --size k=200 --input "
      "'b=normal @transposed' --out order.json";
  const Ran ran = opbound(words);
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(contains(ran.out, "replayed   yes")) << ran.out;
  EXPECT_TRUE(contains(ran.out, "of these 13 steps of hopper")) << ran.out;
  CaseSpec spec = attack::case_for("matmul", Direction::forward, "bf16:fp32:fp32", {1, 1, 200});
  spec.variant = matmul::hopper;
  Prepared p = prepare(spec);
  spec.op->run(p.call);
  const Tensor &a = p.tensors.find("a")->second, &b = p.tensors.find("b")->second;
  Tensor d = p.tensors.find("d")->second;
  double magnitude = 0;
  for (std::int64_t k = 0; k < 200; ++k) magnitude += std::fabs(a.at(k) * b.at(k));
  const std::string tensors = "--in run.safetensors:a run.safetensors:b --out d.npy ";
  write_npy(path("d.npy"), d);
  write_safetensors(path("run.safetensors"), {{"a", a}, {"b", b}});
  const std::string check = "check --op matmul --precision bf16:fp32:fp32 " + tensors;
  EXPECT_EQ(opbound(check + "--variant hopper --order order.json").code, 0);
  EXPECT_TRUE(contains(refusal(check + "--order order.json"), "an order of variant hopper"));
  d.set(0, d.at(0) + 40 * 0x1p-24 * magnitude);
  write_npy(path("d.npy"), d);
  EXPECT_EQ(opbound(check + "--variant hopper --order order.json").code, 1);
  EXPECT_EQ(opbound(check + "--variant hopper --order any").code, 0);
}

TEST_F(ProgramReveal, what_cannot_be_asked_is_one_line) {
  EXPECT_TRUE(contains(refusal("reveal gelu --precision fp32 --size n=8"), "adds nothing"));
  EXPECT_TRUE(contains(refusal("reveal matmul --precision fp32"), "d over k"));
  EXPECT_TRUE(contains(refusal("reveal matmul --precision fp32 --size q=3"), "m, n, k"));
  EXPECT_TRUE(contains(refusal("reveal matmul --precision fp32 --size k=0"), "k=0"));
  EXPECT_TRUE(contains(refusal("reveal matmul --precision fp32 --size k"), "NAME=SIZE"));
  EXPECT_TRUE(contains(refusal("reveal matmul --precision fp32 --size k=4 --part y"), "d"));
  EXPECT_TRUE(contains(refusal("reveal matmu --precision fp32"), "matmul"));
  EXPECT_TRUE(contains(refusal(product + dots + " --input b"), "NAME=KIND"));
  EXPECT_TRUE(contains(refusal(product + dots + " --input b=norml"), "--input b: unknown"));
  EXPECT_TRUE(contains(refusal(product + dots + " --input b=index"), "--input b: "));
  EXPECT_TRUE(contains(refusal(product + dots + " --input b=ties --input b=ties"), "twice"));
  EXPECT_TRUE(contains(refusal("reveal matmul --precision fp16 --size k=4 --provider " + dots),
                       "plain fp32 products only"));
  EXPECT_TRUE(contains(refusal("check --op matmul --precision fp32 --in a.npy b.npy --out d.npy "
                               "--order none.json"),
                       "none.json"));
}

}  // namespace
}  // namespace opbound
