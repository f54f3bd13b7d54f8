// Checks of collectives: right engines pass all of them, each planted fault fails the one that is
// for it.
#include <gtest/gtest.h>

#include <cmath>

#include "distributed/check.hpp"
#include "distributed/world.hpp"
#include "reports/table.hpp"
#include "suites/input.hpp"
#include "tests/planted_collectives.hpp"

namespace opbound {
namespace {

bool passes(const Record& r) {
  return r.verdict == Verdict::within || r.verdict == Verdict::skipped;
}

const Record* find_part(const std::vector<Record>& records, std::string_view part) {
  for (const Record& r : records)
    if (r.part == part) return &r;
  return nullptr;
}

TEST(Collective, EverySchedulePassesEveryCheck) {
  int checked = 0;
  for (const int order : {all_reduce::ring, all_reduce::halving_doubling, all_reduce::binary_tree,
                          all_reduce::double_tree, all_reduce::hierarchical,
                          all_reduce::balanced_tree, all_reduce::direct})
    for (const std::int32_t ranks : {1, 2, 6, 8})
      for (const char* precision : {"fp32", "bf16:fp32:bf16"})
        for (const auto collective : {Collective::all_reduce, Collective::reduce_scatter,
                                      Collective::all_gather, Collective::broadcast}) {
          CollectiveSpec c = planted::collective(order, ranks, 61, precision);
          c.collective = collective;
          World world(ranks, {.lost = 0.05});
          for (const Record& r : check_collective(c, world)) {
            EXPECT_TRUE(passes(r)) << print_record(r);
            EXPECT_EQ(from_json(to_json(r)).op, r.op);
            checked += r.verdict == Verdict::within ? 1 : 0;
          }
        }
  EXPECT_GT(checked, 300);
}

TEST(Collective, ChecksAreNotIdle) {
  World world(8);
  all_reduce::Attributes mean;
  mean.reduction = all_reduce::Reduction::mean;
  const auto records =
      check_collective(planted::collective(all_reduce::balanced_tree, 8, 61, "fp32", mean), world);
  for (const char* part :
       {"y", "ranks", "again", "order", "size", "number of ranks", "mean", "streams"}) {
    const Record* r = find_part(records, part);
    ASSERT_NE(r, nullptr) << part;
    EXPECT_EQ(r->verdict, Verdict::within) << part;
    EXPECT_GE(r->counts.checked, 61U) << part;
  }
}

/// Nothing that is right may fail for what it is: formats with few digits and a short range, values
/// near both ends of it, every reduction.
TEST(Collective, NarrowFormatsAndSmallNumbersPass) {
  for (const char* precision : {"e4m3:fp16:e4m3", "e5m2:fp32:e5m2", "fp16", "bf16:fp32:bf16"})
    for (const char* input : {"subnormal", "log_spaced(low=-9, high=8)", "ties", "cancellation"})
      for (const auto reduction : {all_reduce::Reduction::sum, all_reduce::Reduction::mean,
                                   all_reduce::Reduction::min, all_reduce::Reduction::max})
        for (const auto divides : {all_reduce::Divides::after, all_reduce::Divides::before})
          for (const auto hop : {all_reduce::Hop::compute, all_reduce::Hop::output})
            for (const int order :
                 {all_reduce::ring, all_reduce::balanced_tree, all_reduce::direct}) {
              World world(16);
              const CollectiveSpec c =
                  planted::collective(order, 16, 61, precision, {reduction, divides, hop}, input);
              for (const Record& r : check_collective(c, world))
                EXPECT_TRUE(passes(r) || r.verdict == Verdict::vacuous) << print_record(r);
            }
}

TEST(Collective, WhatAnOrderDoesNotPromiseIsTold) {
  World world(6);
  const auto records =
      check_collective(planted::collective(all_reduce::ring, 6, 61, "bf16"), world);
  const Record* size = find_part(records, "size");
  ASSERT_NE(size, nullptr);
  EXPECT_EQ(size->verdict, Verdict::skipped);
  EXPECT_NE(size->reason.find("hangs on its place in the message; "), std::string::npos);
  EXPECT_EQ(size->reason.find("; 0 of"), std::string::npos) << size->reason;
  EXPECT_EQ(check_collective(planted::collective(all_reduce::balanced_tree, 6, 9, "fp32"), world)
                .at(0)
                .reason,
            "needs a power of two of ranks");
}

TEST(Collective, TheFirstNaNIsNamedWhereItCameFrom) {
  for (const auto reduction : {all_reduce::Reduction::sum, all_reduce::Reduction::max}) {
    all_reduce::Attributes a;
    a.reduction = reduction;
    CollectiveSpec c = planted::collective(all_reduce::ring, 4, 61, "fp32", a);
    World world(4);
    c.tensors = {{"weight", {0, 40}}, {"bias", {40, 21}}};
    Buffers given(4, std::vector<double>(61, 1.0));
    EXPECT_FALSE(first_nonfinite(world, given, c.tensors));
    given[3][2] = INFINITY;
    given[2][57] = NAN;
    EXPECT_EQ(to_string(*first_nonfinite(world, given, c.tensors)), "nan of rank 2, bias[17]");
    c.spec.inputs = {{"x", parse_input("special")}};
    const auto records = check_collective(c, world);
    const Record* origin = find_part(records, "nonfinite");
    ASSERT_NE(origin, nullptr);
    EXPECT_EQ(origin->reason, "inf of rank 0, weight[12] is the first that is no number");
    for (const Record& r : records)
      EXPECT_TRUE(passes(r) || r.verdict == Verdict::vacuous) << print_record(r);
  }
}

TEST(Collective, WhatDoesNotEndIsAFailureWithItsCause) {
  World world(8, {.dead_rank = 2, .dead_round = 1});
  const auto records =
      check_collective(planted::collective(all_reduce::ring, 8, 61, "fp32"), world);
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].verdict, Verdict::failed);
  EXPECT_EQ(records[0].reason, "rank 2 died in round 1; 7 other ranks wait");
}

/// The fault is found by the check that is for it; the same engine without it passes.
TEST(Collective, EveryPlantedFaultIsFound) {
  for (const planted::Fault& fault : planted::all_faults()) {
    for (const bool is_planted : {false, true}) {
      const CollectiveSpec c = fault.spec();
      const auto engine = fault.engine(is_planted);
      std::vector<std::string> found;
      for (const Record& r : check_collective(c, *engine)) {
        if (r.verdict == Verdict::exceeds) found.push_back(r.part);
        EXPECT_TRUE(is_planted || passes(r)) << fault.name << "\n" << print_record(r);
      }
      const bool is_found = std::find(found.begin(), found.end(), fault.part) != found.end();
      EXPECT_EQ(is_found, is_planted) << fault.name;
    }
  }
}

TEST(Collective, ASoiledTensorIsNamed) {
  const planted::Fault fault = planted::missing_wait();
  const auto engine = fault.engine(true);
  const auto records = check_collective(fault.spec(), *engine);
  const Record* streams = find_part(records, "streams");
  ASSERT_NE(streams, nullptr);
  EXPECT_EQ(streams->reason, "read before they are written: bias");
  const Record* y = find_part(records, "y");
  ASSERT_NE(y, nullptr);
  EXPECT_EQ(y->verdict, Verdict::within);  // without the delay nobody sees it
}

}  // namespace
}  // namespace opbound
