// Files of somebody who means harm: they end in one line, take no memory for what they only claim
// to hold, and nothing that they name is written, opened as a library, or run.
#include <map>

#include "distributed/train/checkpoint.hpp"
#include "distributed/train/log.hpp"
#include "ops/providers/plugin.hpp"
#include "ops/providers/plugin_description.hpp"
#include "reports/history.hpp"
#include "reports/json.hpp"
#include "reports/run_store.hpp"
#include "suites/reveal_file.hpp"
#include "suites/sha256.hpp"
#include "suites/suite.hpp"
#include "suites/tensor_file.hpp"
#include "tests/compared_records.hpp"
#include "tests/program.hpp"

namespace opbound {
namespace {

constexpr std::size_t many = 300000;

std::string repeated(std::string_view text, std::size_t times) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += text;
  return all;
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

class Hostile : public Program {
 protected:
  std::string toml(const std::string& text) const {
    const std::string file = put("gelu.toml", text);
    return refused([&] { read_suite(file); });
  }
};

// ---- TOML

/// toml++ would read them; its destructors call themselves for each part.
TEST_F(Hostile, keys_of_many_parts) {
  const std::string line = ": a key of too many parts, expected at most 16";
  const std::string parts = repeated("a.", many);
  EXPECT_EQ(toml(parts + "a = 1\n"), "gelu.toml:1" + line);
  EXPECT_EQ(toml("x = 1\n\n[" + parts + "a]\n"), "gelu.toml:3" + line);
  EXPECT_EQ(toml("[[" + parts + "a]]\n"), "gelu.toml:1" + line);
  EXPECT_EQ(toml("x = {b = 2, " + parts + "a = 1}\n"), "gelu.toml:1" + line);
  EXPECT_EQ(toml("x = [1, {" + parts + "a = 1}]\n"), "gelu.toml:1" + line);
  EXPECT_EQ(toml(repeated("\"a\" . ", many) + "a = 1\n"), "gelu.toml:1" + line);
  // strings that end earlier than they seem to: no way past the count
  for (const char* text :
       {"'it'", "\"a\\\"b\"", "\"\"\"a\"\"\"", "\"\"\"a\"\"\"\"", "\"\"\"a\nb\"\"\"\"\"",
        "'''a''''", "'''a'''''", "\"\"", "''", "\"\\\\\"", "'\\'"}) {
    SCOPED_TRACE(text);
    EXPECT_TRUE(has(toml("x = {k = " + std::string(text) + ", " + parts + "a = 1}\n"), line));
  }
}

TEST_F(Hostile, dots_that_are_no_keys) {
  const std::string dots = repeated("a.", many);
  for (const std::string& text :
       {"x = \"" + dots + "\"", "x = '" + dots + "'", "x = \"\"\"\n" + dots + "\n\"\"\"",
        "x = '''" + dots + "'''", "# " + dots, "x = [" + repeated("0.5, ", many) + "]",
        "x = 1.5  # it's " + dots})
    EXPECT_EQ(toml(text + "\n"),
              has(text, "x =") ? "gelu.toml:1: unknown key 'x', expected one of op, seed, case"
                               : "gelu.toml:1: suite: no op, expected key op")
        << text.substr(0, 20);
}

TEST_F(Hostile, lists_that_multiply) {
  std::string list = "[0";
  for (int i = 1; i < 2000; ++i) list += ", " + std::to_string(i);
  list += "]";
  const std::string start = "op = \"matmul\"\n[[case]]\nprecision = \"fp32\"\nshape = [1, 1, 1]\n";
  const auto refusal_of = [&](const std::string& text) {
    const std::string file = put("matmul.toml", text);
    return refused([&] { read_suite(file); });
  };
  EXPECT_EQ(refusal_of(start + "attributes = {alpha = " + list + ", beta = " + list + "}\n"),
            "matmul.toml:5: beta: too many combinations, expected at most 100000");
  EXPECT_EQ(refusal_of(start + "input = {a = " + "[" + repeated("\"normal\", ", 1000) + "], b = [" +
                       repeated("\"normal\", ", 1000) + "]}\n"),
            "matmul.toml:5: b: too many combinations, expected at most 100000");
  EXPECT_EQ(
      refusal_of(
          start + "seed = " + list + "\n" +
          repeated("[[case]]\nprecision = \"fp32\"\nshape = [1, 1, 1]\nseed = " + list + "\n", 60)),
      "matmul.toml:202: case: too many combinations, expected at most 100000");
}

TEST_F(Hostile, keys_with_letters_beyond_ascii) {
  for (const char* letter :
       {"\xc3\xa9", "\xcd\x93", "\xe2\x80\x83", "\xef\xbb\xbf", "\xf0\x9f\x98\x80"})
    EXPECT_TRUE(
        toml(std::string("op = \"gelu\"\n") + letter + " = 1\n").starts_with("gelu.toml:2: "))
        << letter;
}

// ---- JSON

TEST_F(Hostile, json_that_nests_without_end) {
  const std::string deep = repeated("[", many) + repeated("]", many);
  using Json = nlohmann::json;
  EXPECT_TRUE(detail::parse_json<Json>(deep, 16).is_discarded());
  EXPECT_TRUE(detail::parse_json<Json>("[[[]]]", 1).is_discarded());
  EXPECT_EQ(detail::parse_json<Json>("[[[]]]", 2), Json::parse("[[[]]]"));

  const std::string order = put("order.json", "{\"kind\":\"order\",\"tree\":" + deep + "}");
  EXPECT_TRUE(has(refused([&] { read_order_file(order); }), "order.json: "));
  const std::string log =
      put("log.jsonl", "{\"schema\":1,\"kind\":\"training_run\",\"spec\":" + deep + "}\n");
  EXPECT_EQ(refused([&] { train::read_training_log(log); }),
            "log.jsonl:1: no JSON object, expected a line of a training log");
  const std::string records = put("r.jsonl", "{\"schema\":1,\"op\":" + deep + "}\n");
  EXPECT_TRUE(has(refused([&] { read_records(records); }), "r.jsonl:1: nested too deeply"));
}

TEST_F(Hostile, a_checkpoint_whose_hash_is_right) {
  const auto file_with = [&](const std::string& state) {
    const std::string zeros(64, '0');
    const nlohmann::json head{
        {"__metadata__", {{"opbound.checkpoint", "1"}, {"sha256", zeros}, {"state", state}}}};
    std::string text = head.dump();
    const std::uint64_t length = text.size();
    text.insert(0, reinterpret_cast<const char*>(&length), sizeof length);
    const std::string hash = sha256(std::as_bytes(std::span(text)));
    text.replace(text.find(zeros), zeros.size(), hash);
    return put("c.safetensors", text);
  };
  const auto says = [&](const std::string& state) {
    const std::string file = file_with(state);
    return refused([&] { train::read_checkpoint(file); });
  };
  EXPECT_EQ(says("{\"step\":3,\"metadata\":{}}"), "");
  const std::string expected =
      "c.safetensors: state without step or metadata, expected a checkpoint that `opbound train` "
      "wrote";
  EXPECT_EQ(says("{\"step\":3,\"metadata\":" + repeated("[", many) + repeated("]", many) + "}"),
            expected);
  EXPECT_EQ(says("{\"step\":-3,\"metadata\":{}}"), expected);
  EXPECT_EQ(says("{\"step\":18446744073709551615,\"metadata\":{}}"), expected);
}

/// Two parts of a run are compared by their specs: they have to be what a spec is.
TEST_F(Hostile, a_log_whose_spec_is_none) {
  const std::string run =
      "{\"schema\":1,\"kind\":\"training_run\",\"file\":\"f\",\"commit\":\"c\",\"device\":\"cpu\","
      "\"ranks\":1,\"transport\":\"t\",\"parameters\":1,\"data\":\"d\",\"data_sha256\":\"s\","
      "\"first_step\":1,\"spec\":SPEC,\"providers\":{},\"environment\":{}}\n";
  for (const char* spec : {"5", "[]", "\"x\"", "null"}) {
    std::string line = run;
    line.replace(line.find("SPEC"), 4, spec);
    const std::string log = put("log.jsonl", line + line);
    EXPECT_EQ(refused([&] { train::read_training_log(log); }),
              "log.jsonl:1: 'spec', expected an object")
        << spec;
  }
}

// ---- what a plug-in says of itself, which its own code may have written over

TEST_F(Hostile, a_plugin_that_describes_itself_in_part) {
  const std::vector<std::string> whole{"mine", "1",    "cpu", "",    "",  "1",  "gelu",
                                       "",     "erfc", "1",   "erf", "2", "cc", "gcc"};
  EXPECT_EQ(detail::Description(whole).listed.size(), 1U);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const std::vector<std::string> part(whole.begin(),
                                        whole.begin() + static_cast<std::ptrdiff_t>(length));
    if (length == 12) continue;  // whole without its environment
    EXPECT_THROW(detail::Description{part}, NotAPlugin) << length;
  }
  for (const char* count : {"", "-1", "1x", " 1", "18446744073709551616", "1e3"}) {
    std::vector<std::string> other = whole;
    other[5] = count;
    EXPECT_THROW(detail::Description{other}, NotAPlugin) << count;
    EXPECT_FALSE(detail::whole_number(count)) << count;
  }
  EXPECT_EQ(detail::whole_number("18446744073709551615"), ~std::uint64_t{0});
}

// ---- a history that acts

TEST_F(Hostile, a_history_with_triggers_and_views) {
  const std::string lines = to_json(check_record()) + "\n";
  const std::string records = put("r.jsonl", lines), file = path("h");
  {
    RunStore store(file, RunStore::Missing::made);
    store.add({records}, "one");
    store.add({records}, "two");
  }
  const auto as_its_author = [&](const std::string& sql) {
    const std::string line =
        "python3 -c 'import sqlite3; d = sqlite3.connect(\"h\"); "
        "d.executescript(\"" +
        sql + "\"); d.close()'";
    return shell(line).code == 0;
  };
  if (!as_its_author("")) GTEST_SKIP() << "no python3";
  ASSERT_TRUE(as_its_author("CREATE TRIGGER t AFTER UPDATE ON run BEGIN DELETE FROM block; END;"));
  {
    RunStore store(file, RunStore::Missing::refused);
    store.accept("one");
    EXPECT_EQ(store.records("two").size(), 1U);  // the trigger did nothing
  }
  ASSERT_TRUE(as_its_author(
      "ALTER TABLE run RENAME TO other; CREATE VIEW run AS WITH RECURSIVE r(n) AS (SELECT 1 UNION "
      "ALL SELECT n FROM r) SELECT n AS id, n AS name FROM r;"));
  EXPECT_NE(refused([&] { RunStore(file, RunStore::Missing::refused).runs(); }), "");
}

// ---- words that a reader pastes into a shell

TEST_F(Hostile, commands_to_paste_are_quoted) {
  ASSERT_EQ(opbound("collective --ranks 3 --size 8 --quiet --out r.jsonl").code, 0);
  const std::string line = get("r.jsonl").substr(0, get("r.jsonl").find('\n') + 1);
  ASSERT_TRUE(has(line, "\"precision\":\"")) << line;
  Record record = from_json(line.substr(0, line.size() - 1), "r.jsonl", 1);
  const std::string evil = "fp32; touch pasted #";
  record.precision = evil;
  put("evil.jsonl", to_json(record) + "\n");
  const Ran ran = opbound("explain evil.jsonl:1");
  EXPECT_TRUE(ran.code != 0 || has(ran.out, "--precision '" + evil + "'")) << ran.out;
  EXPECT_FALSE(has(ran.out, "--precision fp32;")) << ran.out;
}

// ---- a policy is data: the file of a plug-in that it names is not opened

TEST_F(Hostile, a_policy_runs_no_code) {
  put("evil.so", "no library");
  put("text.txt", repeated("some text. ", 100));
  put("own.toml", "[[rule]]\nop = \"matmul\"\nprovider = \"./evil.so\"\n");
  put("small.toml",
      "policy = \"./own.toml\"\ndata = \"text.txt\"\nsteps = 1\n[model]\nlayers = 1\n"
      "heads = 2\nwidth = 16\ncontext = 8\n");
  EXPECT_TRUE(has(refusal("train small.toml --quiet"),
                  "policy: its provider './evil.so' is not known here, expected own, "));
  const Ran ran =
      shell("OPBOUND_PLUGINS=./other.so:./evil.so " OPBOUND_PROGRAM " train small.toml --quiet");
  EXPECT_EQ(ran.code, 2);
  EXPECT_TRUE(has(ran.err, "evil.so: cannot be opened: ")) << ran.err;  // it was tried
}

// ---- names inside files are names

TEST_F(Hostile, names_in_files_are_no_paths) {
  const std::string name = "../../outside";
  put("suites/gelu.toml",
      "op = \"gelu\"\n[[case]]\nname = \"" + name + "\"\nprecision = \"fp32\"\nshape = [4]\n");
  std::map<std::string, Tensor> tensors;
  tensors.emplace(name, Tensor(fp32, {4}, std::vector<double>{1, 2, 3, 4}));
  tensors.emplace("/tmp/outside", Tensor(fp32, {4}, std::vector<double>{1, 2, 3, 4}));
  write_safetensors(path("x.safetensors"), tensors);
  ASSERT_EQ(opbound("run suites/gelu.toml --quiet --out r.jsonl").code, 0);
  opbound("check --op gelu --precision fp32 --in x=x.safetensors:" + name +
          " --out y=x.safetensors:" + name + " --quiet");
  ASSERT_EQ(opbound("history add r.jsonl --store h --name " + name).code, 0);
  opbound("history show " + name + " --store h");
  EXPECT_FALSE(std::filesystem::exists(path("../../outside")));
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_))
    files += entry.is_regular_file() ? 1 : 0;
  EXPECT_EQ(files, 6U);  // two inputs, r.jsonl, h, what the shell kept of out and err
}

}  // namespace
}  // namespace opbound
