// `opbound claims` and `opbound env` as a user runs them.
#include <string>

#include "tests/program.hpp"

namespace opbound {
namespace {

class ProgramClaims : public Program {
 protected:
  static std::string claims(const std::string& words) {
    return "claims --folder " OPBOUND_SOURCE_DIR "/suites/claims " + words;
  }
};

TEST_F(ProgramClaims, RunsKeepsAndShowsThem) {
  const Ran ran = opbound(claims("C05 C42 --out claims.jsonl"));
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.out.find("refuted 1, contradicts itself 1"), std::string::npos) << ran.out;
  const Ran page = opbound("claims --records claims.jsonl --markdown");
  EXPECT_EQ(page.code, 0) << page.err;
  EXPECT_NE(page.out.find("### C05"), std::string::npos);
  EXPECT_EQ(opbound("claims --records claims.jsonl --quiet").out,
            "confirmed 0, holds only if 0, refuted 1, contradicts itself 1, not testable here 0\n");
  // A verdict that somebody typed in is none.
  put("typed.jsonl", [text = get("claims.jsonl")]() mutable {
    return text.replace(text.find("\"refuted\""), 9, "\"confirmed\"");
  }());
  EXPECT_NE(refusal("claims --records typed.jsonl").find("typed.jsonl:1: C05 is 'confirmed'"),
            std::string::npos);
}

TEST_F(ProgramClaims, WhatIsWrongIsOneLine) {
  EXPECT_NE(refusal(claims("C5")).find("unknown claim 'C5' (C05?)"), std::string::npos);
  put("bad/a.toml", "[[claim]]\nid = 5\n");
  EXPECT_NE(refusal("claims --folder bad").find("a.toml:2: id: a whole number, expected a string"),
            std::string::npos);
  refusal("claims --records nowhere.jsonl");
  put("empty.jsonl", "");
  EXPECT_EQ(refusal("claims --records empty.jsonl"),
            "opbound: empty.jsonl: no records of claims, expected a file that `opbound claims "
            "--out` wrote\n");
  put("words.jsonl", "my notes\n");
  EXPECT_EQ(refusal("claims --records words.jsonl"),
            "opbound: words.jsonl:1: not a JSON object, expected a record of a claim\n");
  put("other.jsonl", "{\"schema\":1,\"kind\":\"claim\"}\n");
  EXPECT_EQ(refusal("claims --records other.jsonl"),
            "opbound: other.jsonl:1: a field that is missing or of another type, expected a record "
            "of a claim\n");
  refusal(claims("C05 --device gpu"));
  refusal("env --device gpu");
  // The fingerprint of nothing would look like that of a machine.
  for (const char* words : {"env --quiet", "env --json", "env --audit"}) {
    const std::string line = refusal(std::string(words) + " --device cuda:63");
    EXPECT_TRUE(line.starts_with("opbound: --device: ") && line.ends_with(", expected cpu\n"))
        << line;
  }
}

TEST_F(ProgramClaims, AnEnvironmentHasAFingerprintThatVariablesChange) {
  const Ran plain = opbound("env --quiet"), again = opbound("env --quiet");
  EXPECT_EQ(plain.code, 0) << plain.err;
  EXPECT_EQ(plain.out, again.out);
  const Ran other = shell("NVIDIA_TF32_OVERRIDE=1 " OPBOUND_PROGRAM " env --quiet");
  EXPECT_NE(plain.out, other.out);
  EXPECT_NE(opbound("env").out.find("flush to zero"), std::string::npos);
  EXPECT_NE(opbound("env --json").out.find("\"kind\":\"environment\""), std::string::npos);
}

}  // namespace
}  // namespace opbound
