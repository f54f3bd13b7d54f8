// Checks of collectives: right engines pass all of them, each planted fault fails the one that is
// for it.
#include <gtest/gtest.h>

#include <cmath>

#include "distributed/check.hpp"
#include "distributed/check_table.hpp"
#include "distributed/scale.hpp"
#include "distributed/simulated.hpp"
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
  for (const int order : all_orders())
    for (const std::int32_t ranks : {1, 2, 6, 8})
      for (const char* precision : {"fp32", "bf16:fp32:bf16"})
        for (const auto collective : {Collective::all_reduce, Collective::reduce_scatter,
                                      Collective::all_gather, Collective::broadcast}) {
          CollectiveSpec c = planted::collective(order, ranks, 61, precision);
          c.collective = collective;
          SimulatedRanks simulated(ranks, {.lost = 0.05});
          for (const Record& r : check_collective(c, simulated)) {
            EXPECT_TRUE(passes(r)) << print_record(r);
            const Record read = from_json(to_json(r));
            EXPECT_EQ(read.op, "all_reduce");
            EXPECT_EQ(collective_of(read), collective);
            EXPECT_EQ(order_of(read), name_of_order(order));
            checked += r.verdict == Verdict::within ? 1 : 0;
          }
        }
  EXPECT_GT(checked, 300);
}

TEST(Collective, ChecksAreNotIdle) {
  SimulatedRanks simulated(8);
  all_reduce::Attributes mean;
  mean.reduction = all_reduce::Reduction::mean;
  const auto records = check_collective(
      planted::collective(all_reduce::balanced_tree, 8, 61, "fp32", mean), simulated);
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
              SimulatedRanks simulated(16);
              const CollectiveSpec c =
                  planted::collective(order, 16, 61, precision, {reduction, divides, hop}, input);
              for (const Record& r : check_collective(c, simulated))
                EXPECT_TRUE(passes(r) || r.verdict == Verdict::vacuous) << print_record(r);
            }
}

TEST(Collective, WhatAnOrderDoesNotPromiseIsTold) {
  SimulatedRanks simulated(6);
  const auto records =
      check_collective(planted::collective(all_reduce::ring, 6, 61, "bf16"), simulated);
  const Record* size = find_part(records, "size");
  ASSERT_NE(size, nullptr);
  EXPECT_EQ(size->verdict, Verdict::skipped);
  EXPECT_NE(size->reason.find("hangs on its place in the message; "), std::string::npos);
  EXPECT_EQ(size->reason.find("; 0 of"), std::string::npos) << size->reason;
  EXPECT_EQ(
      check_collective(planted::collective(all_reduce::balanced_tree, 6, 9, "fp32"), simulated)
          .at(0)
          .reason,
      "needs a power of two of ranks");
}

TEST(Collective, TheFirstNaNIsNamedWhereItCameFrom) {
  for (const auto reduction : {all_reduce::Reduction::sum, all_reduce::Reduction::max}) {
    all_reduce::Attributes a;
    a.reduction = reduction;
    CollectiveSpec c = planted::collective(all_reduce::ring, 4, 61, "fp32", a);
    SimulatedRanks simulated(4);
    c.tensors = {{"weight", {0, 40}}, {"bias", {40, 21}}};
    Buffers given(4, std::vector<double>(61, 1.0));
    EXPECT_FALSE(first_nonfinite(simulated, given, c.tensors));
    given[3][2] = INFINITY;
    given[2][57] = NAN;
    EXPECT_EQ(to_string(*first_nonfinite(simulated, given, c.tensors)), "nan of rank 2, bias[17]");
    c.spec.inputs = {{"x", parse_input("special")}};
    const auto records = check_collective(c, simulated);
    const Record* origin = find_part(records, "nonfinite");
    ASSERT_NE(origin, nullptr);
    EXPECT_EQ(origin->reason, "inf of rank 0, weight[12] is the first that is no number");
    for (const Record& r : records)
      EXPECT_TRUE(passes(r) || r.verdict == Verdict::vacuous) << print_record(r);
  }
}

TEST(Collective, WhatDoesNotEndIsAFailureWithItsCause) {
  SimulatedRanks simulated(8, {.dead_rank = 2, .dead_round = 1});
  const auto records =
      check_collective(planted::collective(all_reduce::ring, 8, 61, "fp32"), simulated);
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

TEST(Collective, EveryCheckHasAFault) {
  const std::vector<planted::Fault> faults = planted::all_faults();
  for (const AskedCheck& check : asked_checks)
    EXPECT_EQ(std::ranges::count(faults, check.name, &planted::Fault::part) > 0, check.is_judged)
        << check.name;
}

/// A library that adds in the order of arrival, of which 3 ranks are always late.
std::vector<Record> of_library(const std::function<void(Buffers&, bool is_late)>& writes) {
  planted::FaultyRanks library(
      8,
      [&](SimulatedRanks& simulated, Schedule s, const Reducer& r, Buffers& own,
          const Circumstances& now) {
        s.order = now.disturbance > 0 || now.offset > 0 || !now.late.empty()
                      ? all_reduce::binary_tree
                      : all_reduce::ring;
        writes(own, !now.late.empty());
        simulated.run(s, r, own);
      },
      false);
  CollectiveSpec c = planted::collective(all_reduce::any_order, 8, 61, "fp32");
  c.order = all_reduce::ring;
  c.tensors = {{"weight", {0, 40}}, {"bias", {40, 21}}};
  return check_collective(c, library);
}

TEST(Collective, ALibrarysOtherOrderIsNoFinding) {
  const std::vector<Record> records = of_library([](Buffers&, bool) {});
  for (const Record& r : records) EXPECT_TRUE(passes(r)) << print_record(r);
  for (const char* part : {"again", "size", "alignment", "streams"}) {
    const Record* r = find_part(records, part);
    ASSERT_NE(r, nullptr) << part;
    EXPECT_EQ(r->verdict, Verdict::skipped) << part;
    EXPECT_TRUE(r->reason.starts_with("the library promises nothing; ")) << r->reason;
  }
  for (const char* part : {"again", "streams"}) {
    const ElementCounts& counts = find_part(records, part)->counts;
    EXPECT_LT(counts.within, counts.checked) << part;
  }
  EXPECT_EQ(find_part(records, "ranks")->verdict, Verdict::within);  // that it has to keep
}

/// The table reads counts, not words.
TEST(Collective, TheTableTellsOtherBitsByTheirCounts) {
  Record r;
  r.op = "all_reduce";
  r.part = "again";
  r.verdict = Verdict::skipped;
  r.reason = "nobody promised; 0 of 7 elements differ";
  const auto table = [&](std::uint64_t within, std::uint64_t checked) {
    r.counts.within = within;
    r.counts.checked = checked;
    return checks_table({&r, 1}, Terminal{});
  };
  EXPECT_NE(table(6, 7).find("differs"), std::string::npos) << table(6, 7);
  EXPECT_NE(table(7, 7).find("same"), std::string::npos) << table(7, 7);
  EXPECT_EQ(table(0, 0).find("same"), std::string::npos) << table(0, 0);
  EXPECT_EQ(table(0, 0).find("differs"), std::string::npos) << table(0, 0);
}

TEST(Collective, WhatALibraryReadsTooEarlyIsFoundAllTheSame) {
  const std::vector<Record> records = of_library([](Buffers& own, bool is_late) {
    if (is_late) std::fill(own[3].begin() + 40, own[3].end(), 0.0);
  });
  const Record* streams = find_part(records, "streams");
  ASSERT_NE(streams, nullptr);
  EXPECT_EQ(streams->verdict, Verdict::exceeds);
  EXPECT_EQ(streams->reason, "read before they are written: bias at least");
}

/// One order for all elements where every chunk's is: two ranks' sum is one, whoever begins.
TEST(Collective, SizesMatterWhereChunksHaveOtherOrders) {
  const auto has_one = [](int order, std::int32_t ranks, std::int64_t n = 61) {
    return has_one_order({Collective::all_reduce, order, ranks, 3}, n);
  };
  for (const int order : all_orders()) {
    EXPECT_TRUE(has_one(order, 1)) << name_of_order(order);
    EXPECT_TRUE(has_one(order, 2)) << name_of_order(order);
    EXPECT_TRUE(has_one(order, 8, 1)) << name_of_order(order);
    EXPECT_EQ(has_one(order, 8), order != all_reduce::ring && order != all_reduce::double_tree);
  }
}

/// Which of two zeros is first hangs on who sends it, and must not matter.
TEST(Collective, AnExtremeDoesNotHangOnItsOperandsOrder) {
  for (const auto reduction : {all_reduce::Reduction::max, all_reduce::Reduction::min}) {
    Reducer r;
    r.reduction = reduction;
    const bool is_max = reduction == all_reduce::Reduction::max;
    EXPECT_EQ(std::signbit(r.combined(0.0, -0.0)), !is_max);
    EXPECT_EQ(std::signbit(r.combined(-0.0, 0.0)), !is_max);
    EXPECT_TRUE(std::isnan(r.combined(NAN, 0.0)) && std::isnan(r.combined(0.0, NAN)));
    all_reduce::Attributes a;
    a.reduction = reduction;
    for (const int order : all_orders()) {
      SimulatedRanks simulated(8);
      const auto records =
          check_collective(planted::collective(order, 8, 61, "fp32", a, "special"), simulated);
      for (const Record& record : records)
        EXPECT_TRUE(passes(record)) << name_of_order(order) << "\n" << print_record(record);
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

/// A million elements by every schedule: within their bound, which is not idle.
TEST(FullCollective, EveryBoundIsSoundAndNearlyReached) {
  for (const int order : all_orders())
    for (const char* precision : {"fp32", "bf16"})
      for (const std::int32_t ranks : {4, 8}) {
        const auto scaled = scale(planted::collective(order, ranks, 1000000, precision), ranks, 1);
        ASSERT_TRUE(scaled);
        EXPECT_EQ(scaled->row.verdict, Verdict::within) << print_record(scaled->record);
        EXPECT_GE(scaled->row.ratio, 0.5) << name_of_order(order) << " " << precision;
        EXPECT_EQ(scaled->record.counts.checked, 1000000U);
      }
}

}  // namespace
}  // namespace opbound
