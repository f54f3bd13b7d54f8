// Several workers: the records of one, in the same order.
#include "suites/run_cases.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>

#include "ops/out_of_memory.hpp"
#include "reports/error.hpp"
#include "suites/rerun.hpp"

namespace opbound {
namespace {

using namespace std::chrono_literals;

/// Our own kernels, with what a test does before each run.
class Prefixed final : public Provider {
 public:
  explicit Prefixed(std::function<void(const Op&, const Call&)> prefix)
      : prefix_(std::move(prefix)), own_(own_host_provider()) {}

  std::string name() const override { return own_->name(); }
  std::string version() const override { return own_->version(); }
  std::string device() const override { return own_->device(); }
  std::vector<std::pair<std::string, std::string>> environment() const override { return {}; }
  Contract contract(const Op& op, std::vector<int> variants) const override {
    return own_->contract(op, std::move(variants));
  }
  void run(const Op& op, const Call& call) const override {
    prefix_(op, call);
    own_->run(op, call);
  }

 private:
  std::function<void(const Op&, const Call&)> prefix_;
  std::unique_ptr<Provider> own_;
};

/// Rows of softmax, each case longer than the one before.
std::vector<CaseSpec> cases() {
  std::vector<CaseSpec> all;
  for (std::int64_t n = 1; n <= 24; ++n) {
    CaseSpec& spec = all.emplace_back();
    spec.op = find_op("softmax");
    spec.attributes = spec.op->default_attributes;
    spec.precision = *precision_named("bf16:fp32:bf16");
    spec.sizes = {3, n};
    spec.declared = {0};
    spec.inputs = {{"x", {}}};
  }
  return all;
}

/// Everything of a run's records but their time, and the order in which they came.
struct Seen {
  std::vector<std::string> lines;
  std::vector<std::size_t> places;
};

Seen run(const Provider& provider, int workers, std::size_t stop = ~std::size_t{0}) {
  Seen seen;
  const std::vector<CaseSpec> all = cases();
  run_cases(all, provider, {Agreement::outputs, 0, workers},
            {[&](std::size_t place) { return place < stop; },
             [&](std::size_t place, std::vector<Record> records) {
               seen.places.push_back(place);
               for (Record& r : records) {
                 r.time_ms.reset();
                 seen.lines.push_back(to_json(r));
               }
             }});
  return seen;
}

std::vector<std::size_t> first(std::size_t count) {
  std::vector<std::size_t> places;
  for (std::size_t k = 0; k < count; ++k) places.push_back(k);
  return places;
}

TEST(RunCases, GivesTheRecordsOfOneWorkerInTheirOrder) {
  // early cases take longest, so that later ones are done before them
  const Prefixed slow([](const Op&, const Call& c) {
    std::this_thread::sleep_for(c.sizes[1] % 8 == 1 ? 20ms : 1ms);
  });
  const Seen one = run(slow, 1);
  EXPECT_EQ(one.places, first(24));
  for (const int workers : {2, 7, 100}) {
    const Seen several = run(slow, workers);
    EXPECT_EQ(several.places, one.places) << workers;
    EXPECT_EQ(several.lines, one.lines) << workers;
  }
}

TEST(RunCases, RunsAsManyAtTheSameTimeAsItIsTold) {
  std::atomic<int> inside{0}, most{0};
  const Prefixed counted([&](const Op&, const Call&) {
    const int now = ++inside;
    for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
    }
    std::this_thread::sleep_for(5ms);
    --inside;
  });
  run(counted, 1);
  EXPECT_EQ(most, 1);
  run(counted, 4);
  EXPECT_GT(most, 1);
  EXPECT_LE(most, 4);
}

/// What fits only alone is run alone; what never fits fails, whatever the number of workers.
TEST(RunCases, RunsAgainAloneWhatDoesNotFitBesideOthers) {
  std::atomic<int> inside{0}, refused{0};
  const Prefixed narrow([&](const Op&, const Call& c) {
    const bool fits = c.sizes[1] % 3 != 0 || inside == 0;
    ++inside;
    std::this_thread::sleep_for(2ms);
    --inside;
    if (fits) return;
    ++refused;
    throw OutOfMemory("out of device memory");
  });
  const Seen one = run(narrow, 1);
  EXPECT_EQ(refused, 0);
  EXPECT_EQ(run(narrow, 6).lines, one.lines);
  EXPECT_GT(refused, 0);

  const Prefixed never([](const Op&, const Call& c) {
    if (c.sizes[1] == 5) throw OutOfMemory("out of device memory: 1 MiB more are needed");
  });
  EXPECT_EQ(run(never, 6).lines, run(never, 1).lines);
  EXPECT_NE(run(never, 6).lines[4].find("1 MiB more are needed"), std::string::npos);
}

TEST(RunCases, EndsWhereItIsTold) {
  const auto own = own_host_provider();
  EXPECT_EQ(run(*own, 1, 5).places, first(5));
  EXPECT_EQ(run(*own, 4, 5).places, first(5));
}

/// The first of several, after the records of all before it.
TEST(RunCases, ThrowsWhatItsFirstCaseThrew) {
  const Prefixed broken([](const Op&, const Call& c) {
    if (c.sizes[1] == 7) std::this_thread::sleep_for(20ms);
    if (c.sizes[1] >= 7) throw std::runtime_error("case " + std::to_string(c.sizes[1]));
  });
  for (const int workers : {1, 6}) {
    std::vector<std::size_t> places;
    const std::vector<CaseSpec> all = cases();
    try {
      run_cases(all, broken, {Agreement::outputs, 0, workers},
                {[](std::size_t) { return true; },
                 [&](std::size_t place, const std::vector<Record>&) { places.push_back(place); }});
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::runtime_error& e) {
      EXPECT_STREQ(e.what(), "case 7");
    }
    EXPECT_EQ(places, first(6)) << workers;
  }
}

/// A full disk, say.
TEST(RunCases, EndsWhereARecordCannotBeKept) {
  const auto own = own_host_provider();
  for (const int workers : {1, 6}) {
    int kept = 0;
    const std::vector<CaseSpec> all = cases();
    EXPECT_THROW(run_cases(all, *own, {Agreement::outputs, 0, workers},
                           {[](std::size_t) { return true; },
                            [&](std::size_t, const std::vector<Record>&) {
                              if (++kept == 3) throw InputError("file", "full", "room");
                            }}),
                 InputError);
    EXPECT_EQ(kept, 3) << workers;
  }
}

}  // namespace
}  // namespace opbound
