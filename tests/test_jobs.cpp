// Jobs at the same time: what is told, and in which order, does not depend on the workers.
#include "distributed/trace/jobs.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include "ops/parallel.hpp"

namespace opbound::trace {
namespace {

/// Ten jobs, each of which takes longer the earlier it is.
class JobsTest : public testing::Test {
 protected:
  std::vector<Job> jobs(int failing = -1, int untold = -1) {
    std::vector<Job> all;
    for (int i = 0; i < 10; ++i)
      all.push_back({[i, failing, this] {
                       ++ran_;
                       std::this_thread::sleep_for(std::chrono::milliseconds(10 - i));
                       if (i == failing) throw std::runtime_error("job");
                     },
                     [i, untold, this] {
                       if (i == untold) throw std::runtime_error("tell");
                       told_.push_back(i);
                     }});
    return all;
  }
  static std::vector<int> first(int count) {
    std::vector<int> all(static_cast<std::size_t>(count));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }

  std::atomic<int> ran_ = 0;
  std::vector<int> told_;
};

TEST_F(JobsTest, AreToldInTheirOrder) {
  for (const int workers : {1, 2, 3, 16}) {
    told_.clear();
    run_jobs(jobs(), workers, {});
    EXPECT_EQ(told_, first(10)) << workers;
  }
  run_jobs({}, 2, {});
}

TEST_F(JobsTest, AFailureIsThrownAndWhatStoodBeforeItWasTold) {
  for (const int workers : {1, 2, 3, 16}) {
    told_.clear();
    EXPECT_THROW(run_jobs(jobs(4), workers, {}), std::runtime_error);
    EXPECT_EQ(told_, first(4)) << workers;
    told_.clear();
    EXPECT_THROW(run_jobs(jobs(-1, 4), workers, {}), std::runtime_error);
    EXPECT_EQ(told_, first(4)) << workers;
  }
}

TEST_F(JobsTest, StopWhenTheyShall) {
  for (const int workers : {1, 2, 3}) {
    told_.clear();
    ran_ = 0;
    run_jobs(jobs(), workers, [this] { return ran_ >= 5; });
    EXPECT_LE(ran_, 5 + workers) << workers;
    EXPECT_EQ(told_, first(static_cast<int>(told_.size()))) << "those that had ended before";
  }
}

TEST_F(JobsTest, OfSeveralEachKeepsToItsThread) {
  std::atomic<int> astray = 0;
  const Job job{[&] {
                  const std::thread::id own = std::this_thread::get_id();
                  parallel_for(1000, 1 << 20, [&](std::int64_t) {
                    if (std::this_thread::get_id() != own) ++astray;
                  });
                },
                {}};
  run_jobs(std::vector<Job>(4, job), 2, {});
  EXPECT_EQ(astray, 0);
  EXPECT_FALSE(OneThread::holds()) << "afterwards";
}

}  // namespace
}  // namespace opbound::trace
