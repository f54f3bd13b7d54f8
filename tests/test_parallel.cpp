// Work over threads: all of it is done once, also where the system gives none; and ThreadSanitizer
// (-DOPBOUND_SANITIZE=THREAD) sees a planted race.
#include "ops/parallel.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <numeric>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

namespace opbound {
namespace {

/// How often each index is visited, and inside each visit those of a job of its own.
std::vector<int> visits(std::int64_t count, std::int64_t inner) {
  std::vector<int> seen(static_cast<std::size_t>(count));
  parallel_for(count, 1, [&](std::int64_t i) {
    std::vector<int> within(static_cast<std::size_t>(inner));
    parallel_for(inner, 1, [&](std::int64_t j) { ++within[static_cast<std::size_t>(j)]; });
    seen[static_cast<std::size_t>(i)] += std::accumulate(within.begin(), within.end(), 0);
  });
  return seen;
}

class Parallel : public testing::Test {
 protected:
  void TearDown() override { forced_threads = 0; }
};

TEST_F(Parallel, every_index_once) {
  for (const std::int64_t threads : {1, 2, 3, 16}) {
    forced_threads = threads;
    for (const std::int64_t count : {0, 1, 5, 1000})
      EXPECT_EQ(visits(count, 7), std::vector<int>(static_cast<std::size_t>(count), 7)) << threads;
  }
}

TEST_F(Parallel, the_first_exception_comes_out_and_the_next_job_runs) {
  forced_threads = 4;
  const auto fail = [](std::int64_t i) {
    if (i == 500) throw std::runtime_error("here");
  };
  EXPECT_THROW(parallel_for(1000, 1, fail), std::runtime_error);
  EXPECT_EQ(visits(100, 3), std::vector<int>(100, 3));
}

/// What a process of its own has to say: each is this program again, from its beginning.
class ParallelDeathTest : public Parallel {
 protected:
  void SetUp() override { testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

/// 0: all was done without a thread; 1: it was not; 3: no thread can be forbidden here.
int outcome_without_threads() {
  const rlimit none{0, 0};
  if (geteuid() == 0 && setuid(65534) != 0) return 3;
  if (setrlimit(RLIMIT_NPROC, &none) != 0) return 3;
  try {
    std::thread([] {}).join();
    return 3;
  } catch (const std::system_error&) {
  }
  forced_threads = 8;
  return visits(1000, 5) == std::vector<int>(1000, 5) ? 0 : 1;
}

/// A user who may have no more threads: this one does everything.
TEST_F(ParallelDeathTest, without_threads) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "LeakSanitizer needs a thread";
#endif
  const auto is_done = [](int status) {
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return code == 0 || code == 3;
  };
  EXPECT_EXIT(std::exit(outcome_without_threads()), is_done, "");
}

#if defined(__SANITIZE_THREAD__)
/// ThreadSanitizer counts its findings when the program ends.
void sum_and_exit(bool races) {
  forced_threads = 4;
  std::int64_t sum = 0;
  std::atomic<std::int64_t> safe = 0;
  parallel_for(100000, 1, [&](std::int64_t i) { races ? sum += i : safe += i; });
  std::exit(sum + safe > 0 ? 0 : 1);
}

TEST_F(ParallelDeathTest, a_planted_race_is_seen) {
  constexpr int found = 66;  // ThreadSanitizer's exit code
  EXPECT_EXIT(sum_and_exit(false), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(sum_and_exit(true), testing::ExitedWithCode(found), "data race");
}
#endif

}  // namespace
}  // namespace opbound
