// What reaches a rank over MPI is what it waits for, or it says in one line that it is not. Every
// test starts itself again under mpirun, as two ranks.
#include <unistd.h>
#include <filesystem>

#include <array>
#include <chrono>
#include <functional>
#include <thread>

#include "distributed/launch.hpp"
#include "distributed/mpi.hpp"
#include "ops/provider.hpp"
#include "tests/program.hpp"

namespace opbound {
namespace {

using Bytes = std::array<std::byte, 16>;

/// Seconds that ranks wait for one another here.
constexpr double patience = 1;

class Mpi : public Program {
 protected:
  /// Rank 0 does the one, rank 1 the other; what both printed. In the ranks themselves it gives
  /// nothing, and `failures` holds what they said.
  std::optional<Ran> ranks(const std::function<void(Communicator&)>& zero,
                           const std::function<void(Communicator&)>& one) {
    if (launched()) {
      try {
        const std::unique_ptr<Communicator> own = mpi_communicator(patience);
        (own->rank() == 0 ? zero : one)(*own);
      } catch (const ProviderFailure&) {  // the transport tells of it before it ends all ranks
      }
      return std::nullopt;
    }
    const auto test = testing::UnitTest::GetInstance()->current_test_info();
    std::array<char, 4096> self{};
    if (readlink("/proc/self/exe", self.data(), self.size() - 1) < 0) std::abort();
    return shell(
        "command -v mpirun >/dev/null || exit 77; OMPI_ALLOW_RUN_AS_ROOT=1 "
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 60 mpirun --oversubscribe -np 2 " +
        std::string(self.data()) + " --gtest_filter=" + test->test_suite_name() + "." +
        test->name());
  }

  /// Rank 0 sends so many bytes of a tag, rank 1 waits for so many of another: what is said of it.
  std::optional<Ran> mismatch(std::size_t sent, std::int32_t sent_tag, std::size_t due,
                              std::int32_t due_tag) {
    return ranks(
        [&](Communicator& own) {
          const Bytes bytes{};
          const Sent message{1, sent_tag, std::span(bytes).first(sent)};
          own.exchange({&message, 1}, {});
          Bytes never{};
          const Received end{1, 7, never};
          own.exchange({}, {&end, 1});
        },
        [&](Communicator& own) {
          Bytes bytes{};
          const Received message{0, due_tag, std::span(bytes).first(due)};
          own.exchange({}, {&message, 1});
        });
  }
};

#define EXPECT_LINE(ran, line)                                                             \
  do {                                                                                     \
    if (!(ran)) break; /* a rank of the test */                                            \
    if (!std::filesystem::exists(                                                          \
            std::filesystem::path(OPBOUND_PROGRAM).replace_filename("libopbound_mpi.so"))) \
      GTEST_SKIP() << "built without MPI";                                                 \
    if ((ran)->code == 77) GTEST_SKIP() << "no mpirun";                                    \
    if ((ran)->err.find("this build has no libopbound_mpi") != std::string::npos)          \
      GTEST_SKIP() << "built without MPI";                                                 \
    EXPECT_NE((ran)->code, 0);                                                             \
    EXPECT_NE((ran)->code, 124) << "of `timeout`";                                         \
    EXPECT_NE((ran)->err.find("opbound: mpi: rank 1: receiving from rank 0: " line "\n"),  \
              std::string::npos)                                                           \
        << (ran)->err;                                                                     \
  } while (false)

TEST_F(Mpi, ShorterMessagesAreRefused) {
  const std::optional<Ran> ran = mismatch(4, 0, 8, 0);
  EXPECT_LINE(ran, "it sends 4 bytes where 8 bytes are due: it is at another place");
}

TEST_F(Mpi, EmptyMessagesAreRefusedWhereOthersAreDue) {
  const std::optional<Ran> ran = mismatch(0, 0, 8, 0);
  EXPECT_LINE(ran, "it sends 0 bytes where 8 bytes are due: it is at another place");
}

TEST_F(Mpi, LongerMessagesAreRefused) {
  const std::optional<Ran> ran = mismatch(16, 0, 8, 0);
  EXPECT_LINE(ran, "it sends more where 8 bytes are due: it is at another place");
}

TEST_F(Mpi, MessagesWhereNoneIsDueAreRefused) {
  const std::optional<Ran> ran = mismatch(8, 0, 0, 0);
  EXPECT_LINE(ran, "it sends more where 0 bytes are due: it is at another place");
}

TEST_F(Mpi, MessagesForAnotherPlaceAreNamedWhenTimeIsUp) {
  const std::optional<Ran> ran = mismatch(8, 1, 8, 0);
  EXPECT_LINE(ran, "it has sent something else; no end within 1 seconds");
}

/// Nobody passes an exchange of nothing before everybody has come to it.
TEST_F(Mpi, GatheringNothingIsABarrier) {
  const std::optional<Ran> ran = ranks(
      [](Communicator& own) {
        gather_all(own, {});
        std::printf("rank 0 is through\n");
        std::fflush(stdout);
      },
      [](Communicator& own) {
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        std::printf("rank 1 comes\n");
        std::fflush(stdout);
        std::this_thread::sleep_for(std::chrono::milliseconds(100));  // until mpirun has the line
        gather_all(own, {});
      });
  if (!ran) return;
  if (ran->code == 77) GTEST_SKIP() << "no mpirun";
  if (ran->out.find("rank 1 comes") == std::string::npos) GTEST_SKIP() << "built without MPI";
  EXPECT_EQ(ran->code, 0) << ran->err;
  EXPECT_LT(ran->out.find("rank 1 comes"), ran->out.find("rank 0 is through")) << ran->out;
}

}  // namespace
}  // namespace opbound
