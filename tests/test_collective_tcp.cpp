// Ranks over sockets: as threads here, as processes in test_collective_program.cpp.
#include "distributed/tcp.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <mutex>
#include <thread>

#include "distributed/socket.hpp"
#include "ops/provider.hpp"
#include "reports/error.hpp"
#include "tests/collective_case.hpp"
#include "tests/environment.hpp"

namespace opbound {
namespace {

/// A port for each test of each process.
MeetingPlace place(int test) {
  return {"127.0.0.1", static_cast<std::uint16_t>(20000 + (getpid() * 16 + test) % 40000)};
}

/// action(communicator) on every rank; what those that fail say.
std::vector<std::string> on_ranks(std::int32_t ranks, int test,
                                  const std::function<void(Communicator&)>& action) {
  std::vector<std::string> failures;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (std::int32_t r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      try {
        action(*tcp_communicator({r, ranks, r, "torchrun"}, place(test)));
      } catch (const ProviderFailure& e) {
        const std::lock_guard lock(mutex);
        failures.emplace_back(e.what());
      }
    });
  for (std::thread& t : threads) t.join();
  return failures;
}

TEST(Tcp, AllReducesGiveTheOpsBits) {
  for (const int order : {all_reduce::ring, all_reduce::balanced_tree, all_reduce::binary_tree}) {
    CollectiveCase c(order, 4, 61, "bf16:fp32:bf16");
    const std::vector<double> expected = c.by_op();
    const auto failures = on_ranks(4, 0, [&](Communicator& own) {
      auto& buffer = c.terms[static_cast<std::size_t>(own.rank())];
      run_collective(own, c.schedule, c.reducer, buffer);
      EXPECT_TRUE(same_bits(c.stored(buffer), expected));
    });
    EXPECT_EQ(failures, std::vector<std::string>{});
  }
}

/// More than sockets hold, both ways at once.
TEST(Tcp, LargeMessagesPassOneAnother) {
  const auto failures = on_ranks(3, 1, [](Communicator& own) {
    const std::vector<std::byte> mine(1 << 24, static_cast<std::byte>(own.rank()));
    const std::vector<std::byte> all = gather_all(own, mine);
    for (std::size_t k = 0; k < all.size(); k += 4099)
      ASSERT_EQ(all[k], static_cast<std::byte>(k / mine.size()));
  });
  EXPECT_EQ(failures, std::vector<std::string>{});
}

TEST(Tcp, ARankThatIsGoneIsNamed) {
  const auto failures = on_ranks(3, 2, [](Communicator& own) {
    if (own.rank() == 2) return;
    std::byte from_it{};
    const Received received{2, 0, {&from_it, 1}};
    own.exchange({}, {&received, 1});
  });
  ASSERT_EQ(failures.size(), 2U);
  for (const std::string& failure : failures)
    EXPECT_NE(failure.find("receiving from rank 2: "), std::string::npos) << failure;
}

TEST(Tcp, RanksThatDoNotComeAreNotWaitedForForever) {
  EXPECT_THROW(tcp_communicator({0, 2, 0, "torchrun"}, place(3), 0.1), ProviderFailure);
  EXPECT_THROW(tcp_communicator({1, 2, 1, "torchrun"}, place(4), 0.1), ProviderFailure);
}

/// A rank that is here and says nothing: the others do not wait for it for ever.
TEST(Tcp, ARankThatSaysNothingIsNotWaitedForForever) {
  std::vector<std::string> failures(2);
  std::vector<std::thread> threads;
  for (std::int32_t r = 0; r < 2; ++r)
    threads.emplace_back([&, r] {
      const auto own = tcp_communicator({r, 2, r, "torchrun"}, place(5), r == 0 ? 0.5 : 20);
      std::byte one{};
      const Received received{1 - r, 0, {&one, 1}};
      for (int again = 0; again < 2; ++again) {
        try {
          own->exchange({}, {&received, 1});
        } catch (const ProviderFailure& e) {
          failures[static_cast<std::size_t>(r)] += std::string(e.what()) + "\n";
        }
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(failures[0], "receiving from rank 1: nothing for 0.5 seconds\ntcp: it broke before\n");
  EXPECT_TRUE(failures[1].starts_with("receiving from rank 0: ")) << failures[1];
}

/// What rank 0 says of the ranks that `come`.
std::string failure_of_meeting(int test, const std::vector<std::int32_t>& come) {
  std::string failure;
  std::thread zero([&] {
    try {
      tcp_communicator({0, 3, 0, "torchrun"}, place(test), 1);
    } catch (const ProviderFailure& e) {
      failure = e.what();
    }
  });
  std::vector<Socket> guests;
  for (std::int32_t rank : come) {
    guests.push_back(Socket::connect("127.0.0.1", place(test).port, deadline_in(10)));
    std::int32_t port = 1;
    if (rank < -1) continue;  // comes and says nothing
    guests.back().send_all(std::as_bytes(std::span(&rank, 1)), deadline_in(10), "rank 0");
    guests.back().send_all(std::as_bytes(std::span(&port, 1)), deadline_in(10), "rank 0");
  }
  zero.join();
  return failure;
}

TEST(Tcp, WhoIsNoSuchRankIsRefused) {
  EXPECT_EQ(failure_of_meeting(6, {1, 1}), "tcp: rank 1 has come twice");
  EXPECT_EQ(failure_of_meeting(7, {0}), "tcp: somebody who is no such rank");
  EXPECT_EQ(failure_of_meeting(8, {3}), "tcp: somebody who is no such rank");
  EXPECT_EQ(failure_of_meeting(9, {1, -2}), "tcp: somebody has come and says nothing");
  EXPECT_EQ(failure_of_meeting(10, {2}), "tcp: rank 1 has not come within 1 seconds");
}

TEST(Tcp, TheMeetingPlaceIsRankZeros) {
  const Environment clean(
      {"SLURM_STEP_NODELIST", "SLURM_JOB_ID", "MASTER_ADDR", "MASTER_PORT", "OPBOUND_PORT"});
  EXPECT_EQ(first_host("node[07-12,20],login1"), "node07");
  EXPECT_EQ(first_host("a,b"), "a");
  EXPECT_EQ(first_host("a"), "a");
  EXPECT_EQ(first_host("a,b[1-2]"), "a");
  setenv("SLURM_STEP_NODELIST", "gpu[3,5]", 1);
  setenv("SLURM_JOB_ID", "123456", 1);
  EXPECT_EQ(meeting_place().host, "gpu3");
  EXPECT_EQ(meeting_place().port, 20000 + 123456 % 20000);
  setenv("MASTER_ADDR", "host", 1);
  setenv("MASTER_PORT", "29500", 1);
  EXPECT_EQ(meeting_place().host, "host");
  EXPECT_EQ(meeting_place().port, 29501);
  setenv("OPBOUND_PORT", "70000", 1);
  EXPECT_THROW(meeting_place(), InputError);
}

}  // namespace
}  // namespace opbound
