// The audit of settings: what was tried decides, what is documented tells kinds apart, nothing is
// claimed without a source.
#include <gtest/gtest.h>

#include "distributed/claims/audit.hpp"
#include "ops/provider.hpp"
#include "reports/environment.hpp"
#include "reports/error.hpp"
#include "tests/temporary_folder.hpp"

namespace opbound::claims {
namespace {

Setting setting(Effect documented, Trial trial = {}) {
  Setting s;
  s.name = "S";
  s.kind = "setting";
  s.documented = documented;
  s.reason = "why";
  s.source = "where";
  s.trial = std::move(trial);
  return s;
}

/// A run that changes or does not, and programs that print one thing or another each time.
Tried tried(bool changes, const std::string& steady = "with") {
  Tried t;
  t.changes_training = [changes](const Trial&) { return changes; };
  t.run_python = [steady](const std::string& program, int times) {
    std::vector<std::string> outputs;
    for (int i = 0; i < times; ++i)
      outputs.push_back(program == steady ? "same" : std::to_string(i));
    return outputs;
  };
  return t;
}

const Trial variable{{{"NAME", "1"}}, false, "", ""};
const Trial python{{}, false, "without", "with"};

TEST(Audit, WhatWasTriedDecides) {
  EXPECT_EQ(audit(setting(Effect::placebo, variable), tried(true)).effect, Effect::bits);
  EXPECT_EQ(audit(setting(Effect::order, variable), tried(true)).effect, Effect::order);
  EXPECT_EQ(audit(setting(Effect::placebo, variable), tried(false)).effect, Effect::placebo);
  EXPECT_EQ(audit(setting(Effect::timing, variable), tried(false)).effect, Effect::timing);
  EXPECT_EQ(audit(setting(Effect::order, variable), tried(false)).effect, Effect::not_testable);
  EXPECT_EQ(audit(setting(Effect::bits, python), tried(false)).effect, Effect::bits);
  EXPECT_EQ(audit(setting(Effect::order, python), tried(false)).effect, Effect::order);
  EXPECT_EQ(audit(setting(Effect::bits, python), tried(false, "nothing")).effect, Effect::placebo);
  EXPECT_TRUE(audit(setting(Effect::bits, python), tried(false)).is_tried);
}

TEST(Audit, WhatCannotBeTriedIsDocumentedAndSaysSo) {
  Tried none;
  none.changes_training = [](const Trial&) -> bool { throw Unavailable("no such thing"); };
  const Audited a = audit(setting(Effect::order, variable), none);
  EXPECT_EQ(a.effect, Effect::order);
  EXPECT_FALSE(a.is_tried);
  EXPECT_EQ(a.basis, "not tried: no such thing; documented: why");
  EXPECT_EQ(audit(setting(Effect::does_not_exist), none).effect, Effect::does_not_exist);
}

using AuditReader = TemporaryFolder;

TEST_F(AuditReader, AnEffectNeedsASource) {
  const std::string file = put("s.toml",
                               "[[setting]]\nname = \"S\"\nkind = \"seed\"\ntext = \"t\"\n"
                               "documented = \"placebo\"\nreason = \"r\"\n");
  EXPECT_EQ(refused([&] { read_settings(file); }),
            "s.toml:1: setting: an effect that is documented nowhere, expected key source");
}

TEST(Audit, SixteenSettingsAndSevenSeedsAreCommitted) {
  int settings = 0, seeds = 0;
  for (const Setting& s : read_settings(OPBOUND_SOURCE_DIR "/suites/claims/audit/settings.toml"))
    ++(s.kind == "seed" ? seeds : settings);
  EXPECT_EQ(settings, 16);
  EXPECT_EQ(seeds, 7);
}

TEST(Environment, TheFloatingPointModeIsThatOfThisThread) {
  const auto mode = floating_point_mode();
  EXPECT_EQ(mode.front(), std::pair(std::string("flush to zero"), std::string("off")));
  const unsigned before = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(before | 0x8040U);  // flush to zero, denormals are zero
  const auto flushing = floating_point_mode();
  __builtin_ia32_ldmxcsr(before);
  EXPECT_EQ(flushing[0].second, "on");
  EXPECT_EQ(flushing[1].second, "on");
  EXPECT_EQ(flushing[2].second, "to nearest even");
}

TEST(Environment, AnotherVariableIsAnotherFingerprint) {
  const auto before = environment_facts({{"compiler", "c"}});
  EXPECT_EQ(environment_fingerprint(before),
            environment_fingerprint(environment_facts({{"compiler", "c"}})));
  ASSERT_EQ(setenv("NVIDIA_TF32_OVERRIDE", "1", 1), 0);
  const auto after = environment_facts({{"compiler", "c"}});
  ASSERT_EQ(unsetenv("NVIDIA_TF32_OVERRIDE"), 0);
  EXPECT_NE(environment_fingerprint(before), environment_fingerprint(after));
  EXPECT_NE(environment_json(after).find("\"NVIDIA_TF32_OVERRIDE\":\"1\""), std::string::npos);
}

}  // namespace
}  // namespace opbound::claims
