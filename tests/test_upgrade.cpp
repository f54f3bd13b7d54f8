// What two runs may differ in: the upgrade alone, unless told.
#include <gtest/gtest.h>

#include "reports/compare.hpp"
#include "reports/error.hpp"
#include "tests/compared_records.hpp"

namespace opbound {
namespace {

using Records = std::vector<Record>;

Comparison of_environments(const Named<std::string>& before, const Named<std::string>& after) {
  static Records old_run, new_run;
  old_run = new_run = {check_record()};
  old_run[0].environment = before;
  new_run[0].environment = after;
  return compare(old_run, new_run);
}

std::string refusal(const Comparison& c, const Permission& permission = {}) {
  try {
    require_one_upgrade(c, permission);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(Upgrade, IsTheOneThingThatDiffers) {
  EXPECT_EQ(refusal(of_environments({{"cudnn", "9.14"}}, {{"cudnn", "9.14"}})), "");
  EXPECT_EQ(refusal(of_environments({{"cudnn", "9.14"}}, {{"cudnn", "9.19"}})), "");
  // one driver, one toolkit, each told in two entries
  EXPECT_EQ(refusal(of_environments({{"driver", "580"}, {"cuda_driver_api", "13.0"}},
                                    {{"driver", "590"}, {"cuda_driver_api", "13.1"}})),
            "");
  EXPECT_EQ(refusal(of_environments({{"compiler", "nvcc 13.0, 12.2.0"}, {"cuda_runtime", "13.0"}},
                                    {{"compiler", "nvcc 13.1, 12.2.0"}, {"cuda_runtime", "13.1"}})),
            "");
}

TEST(Upgrade, MoreThanOneIsRefusedUnlessTold) {
  const Comparison c = of_environments({{"cudnn", "9.14"}, {"driver", "580"}},
                                       {{"cudnn", "9.19"}, {"driver", "590"}});
  EXPECT_EQ(refusal(c),
            "diff: the runs differ in more than one thing: cudnn 9.14 -> 9.19; driver 580 -> 590, "
            "expected the upgrade alone; if it is cudnn and the rest may differ too: --allow "
            "driver, or --allow all");
  EXPECT_EQ(refusal(c, {"", {"driver"}}), "");
  EXPECT_EQ(refusal(c, {"", {"cudnn"}}), "");
  EXPECT_EQ(refusal(c, {"", {"all"}}), "");
  EXPECT_EQ(refusal(c, {"cudnn", {"driver"}}), "");
  EXPECT_NE(refusal(c, {"driver", {}})
                .find("if it is driver and the rest may differ too: --allow "
                      "cudnn"),
            std::string::npos);
}

TEST(Upgrade, ThatDidNotTakePlaceIsSaid) {
  const Comparison c = of_environments({{"cudnn", "9.14"}, {"driver", "580"}},
                                       {{"cudnn", "9.14"}, {"driver", "590"}});
  EXPECT_EQ(refusal(c, {"cudnn", {"driver"}}),
            "--upgrade: cudnn is 9.14 in both, expected what differs: driver");
  EXPECT_EQ(refusal(c, {"gmp", {}}),
            "--upgrade: no record tells of a 'gmp', expected what differs: driver");
}

TEST(Upgrade, AVersionThatTheEnvironmentTellsIsOneThing) {
  Records before{check_record()}, after{check_record()};
  before[0].provider = after[0].provider = "cudnn";
  before[0].provider_version = "9.14";
  after[0].provider_version = "9.19";
  before[0].environment = {{"cudnn", "9.14"}, {"plugin", "./libc.so"}};
  after[0].environment = {{"cudnn", "9.19"}, {"plugin", "./libc.so"}};
  Comparison c = compare(before, after);
  ASSERT_EQ(c.differences().size(), 1U);
  EXPECT_EQ(text_of(c.differences()[0], "->"), "cudnn 9.14 -> 9.19");
  // a longer form of the version, in another build of the plug-in
  before[0].environment = {{"libcudnn", "9.14.0"}, {"plugin", "old/libc.so"}};
  after[0].environment = {{"libcudnn", "9.19.0"}, {"plugin", "new/libc.so"}};
  c = compare(before, after);
  ASSERT_EQ(c.differences().size(), 1U);
  EXPECT_EQ(text_of(c.differences()[0], "->"), "libcudnn 9.14.0 -> 9.19.0");
  // told by the provider alone
  before[0].environment = {{"plugin", "old/libc.so"}};
  after[0].environment = {{"plugin", "new/libc.so"}};
  c = compare(before, after);
  ASSERT_EQ(c.differences().size(), 1U);
  EXPECT_EQ(text_of(c.differences()[0], "->"), "cudnn 9.14 -> 9.19");
  EXPECT_EQ(refusal(c, {"cudnn", {}}), "");
  // two builds of one version
  after[0].provider_version = "9.14";
  c = compare(before, after);
  ASSERT_EQ(c.differences().size(), 1U);
  EXPECT_EQ(text_of(c.differences()[0], "->"), "plugin_file old/libc.so -> new/libc.so");
}

TEST(Upgrade, WhatComesWithAFrameworkIsPartOfIt) {
  Records before{check_record()}, after{check_record()};
  before[0].provider = after[0].provider = "torch";
  before[0].provider_version = "2.4.1";
  after[0].provider_version = "2.9.1";
  before[0].environment = {{"torch mkl-dnn", "v3.4.2"}, {"torch threads", "1"}};
  after[0].environment = {{"torch mkl-dnn", "v3.7.1"}, {"torch threads", "1"}};
  Comparison c = compare(before, after);
  ASSERT_EQ(c.differences().size(), 1U);
  EXPECT_EQ(text_of(c.differences()[0], "->"),
            "torch 2.4.1, mkl-dnn v3.4.2 -> 2.9.1, mkl-dnn v3.7.1");
  after[0].environment[1].second = "8";  // but a setting is not
  c = compare(before, after);
  EXPECT_NE(refusal(c, {"torch", {}}).find("--allow 'torch threads', or --allow all"),
            std::string::npos)
      << refusal(c, {"torch", {}});
}

TEST(Upgrade, FilesOfOutputsAreOneThing) {
  Records before(2, check_record()), after(2, check_record());
  before[1].part = after[1].part = "dx";
  for (std::size_t i = 0; i < 2; ++i) {
    before[i].provider = after[i].provider = "file";
    before[i].environment = {{"y", "file(torch_2.10.npy)"}, {"dx", "file(dx_2.10.npy)"}};
    after[i].environment = {{"y", "file(torch_2.11.npy)"}, {"dx", "file(dx_2.11.npy)"}};
  }
  const Comparison c = compare(before, after);
  ASSERT_EQ(c.differences().size(), 1U);
  EXPECT_EQ(c.differences()[0].name, "files");
}

TEST(Upgrade, TwoRunsThatExchangeTheirValuesDiffer) {
  Records before(2, check_record()), after(2, check_record());
  before[1].op = after[1].op = "softmax";
  before[0].environment = after[1].environment = {{"cudnn", "9.14"}};
  before[1].environment = after[0].environment = {{"cudnn", "9.19"}};
  EXPECT_EQ(compare(before, after).differences().size(), 1U);
}

TEST(Upgrade, CommitAndSuiteAreThingsOfTheirOwn) {
  Records before{check_record()}, after{check_record()};
  after[0].commit = "another";
  after[0].suite = "mine/other.toml";
  EXPECT_EQ(compare(before, after).differences().size(), 2U);
  after[0].suite = "elsewhere/gelu.toml";  // the suite in another place
  EXPECT_EQ(compare(before, after).differences().size(), 1U);
}

}  // namespace
}  // namespace opbound
