// The reproducible all-reduce: one set of bits for every number of ranks, and what it costs.
#include <gtest/gtest.h>

#include "distributed/reproducible.hpp"
#include "reports/error.hpp"
#include "tests/collective_case.hpp"
#include "tests/thread_ranks.hpp"

namespace opbound {
namespace {

/// action(communicator) on every rank; gives the bytes that each sent.
template <class F>
std::vector<std::size_t> on_ranks(std::int32_t ranks, F action) {
  std::vector<std::size_t> bytes(static_cast<std::size_t>(ranks));
  on_thread_ranks(ranks, [&](std::unique_ptr<ThreadRank> own) {
    action(*own);
    bytes[static_cast<std::size_t>(own->rank())] = own->bytes();
  });
  return bytes;
}

void expect_one_set_of_bits(std::int32_t micro_batches, std::int64_t n, const char* precision,
                            all_reduce::Attributes attributes) {
  CollectiveCase c(all_reduce::balanced_tree, micro_batches, n, precision, attributes);
  const std::vector<double> expected = c.by_op();
  for (std::int32_t ranks = 1; ranks <= micro_batches; ranks *= 2)
    on_ranks(ranks, [&](Communicator& own) {
      std::vector<double> sum(static_cast<std::size_t>(n));
      reproducible_all_reduce(own, c.reducer, c.gradient(), sum);
      EXPECT_TRUE(same_bits(c.stored(sum), expected)) << ranks << " of " << micro_batches;
    });
}

TEST(Reproducible, BitsDoNotDependOnTheNumberOfRanks) {
  for (const std::int32_t micro_batches : {1, 2, 5, 8, 13, 16})
    for (const std::int64_t n : {1, 7, 40})
      for (const char* precision : {"fp64", "fp32", "bf16", "bf16:fp32:bf16", "fp16:fp32:fp16"})
        for (const auto reduction : {all_reduce::Reduction::sum, all_reduce::Reduction::mean})
          for (const auto hop : {all_reduce::Hop::compute, all_reduce::Hop::output})
            expect_one_set_of_bits(micro_batches, n, precision,
                                   {reduction, all_reduce::Divides::after, hop});
}

/// An element's bits are those that it has in a message of its own.
TEST(Reproducible, BitsDoNotDependOnTheMessagesSize) {
  CollectiveCase c(all_reduce::balanced_tree, 16, 61, "bf16:fp32:bf16");
  const std::vector<double> expected = c.by_op();
  for (std::int64_t first = 0, length = 1; first < 61; first += length, ++length)
    on_ranks(4, [&](Communicator& own) {
      const std::int64_t count = std::min<std::int64_t>(length, 61 - first);
      std::vector<double> whole(61), sum(static_cast<std::size_t>(count));
      const Gradient part = [&](std::int64_t m, std::span<double> elements) {
        c.gradient()(m, whole);
        std::copy_n(whole.begin() + first, count, elements.begin());
      };
      reproducible_all_reduce(own, c.reducer, part, sum);
      const auto begin = expected.begin() + first;
      EXPECT_TRUE(same_bits(c.stored(sum), {begin, begin + count})) << first;
    });
}

/// Without rounding inside of a rank the bits would depend on the ranks: the reason for the rule.
TEST(Reproducible, NodesInsideOfARankAreRoundedToo) {
  all_reduce::Attributes stored;
  stored.hop = all_reduce::Hop::output;
  CollectiveCase c(all_reduce::balanced_tree, 64, 1000, "bf16:fp32:bf16", stored);
  const std::vector<double> expected = c.by_op();
  Reducer wide = c.reducer;
  wide.wire = fp32;
  std::int64_t differing = 0;
  std::vector<Buffers::value_type> partial(2, std::vector<double>(1000));
  for (std::int32_t r = 0; r < 2; ++r)
    add_share(wide, share_of(64, 2, r), c.gradient(), partial[static_cast<std::size_t>(r)]);
  for (std::size_t i = 0; i < 1000; ++i) {
    const double total =
        c.reducer.combined(c.reducer.kept(partial[0][i]), c.reducer.kept(partial[1][i]));
    differing += c.reducer.kept(total) == expected[i] ? 0 : 1;
  }
  EXPECT_GT(differing, 0);
  RecordProperty("differing_of_1000", std::to_string(differing));
}

/// 2 (p - 1) / p of the message leave a rank, as in a ring.
TEST(Reproducible, SendsARingsBytes) {
  for (const std::int32_t ranks : {2, 4, 8, 16}) {
    const std::int64_t n = 16 * 5;
    const auto bytes_of_order = [&](int order) {
      CollectiveCase c(order, ranks, n, "fp32");
      return on_ranks(ranks, [&](Communicator& own) {
        run_collective(own, c.schedule, c.reducer, c.terms[static_cast<std::size_t>(own.rank())]);
      });
    };
    const auto expected = static_cast<std::size_t>(2 * (ranks - 1) * n / ranks * 4);
    const std::vector<std::size_t> each(static_cast<std::size_t>(ranks), expected);
    EXPECT_EQ(bytes_of_order(all_reduce::balanced_tree), each);
    EXPECT_EQ(bytes_of_order(all_reduce::ring), each);
  }
}

TEST(Reproducible, SharesAreAlignedSubtrees) {
  for (std::int64_t m = 1; m <= 40; ++m)
    for (std::int32_t ranks = 1; ranks <= m; ranks *= 2) {
      std::int64_t next = 0;
      for (std::int32_t r = 0; r < ranks; ++r) {
        const Share share = share_of(m, ranks, r);
        EXPECT_EQ(share.first, next);
        EXPECT_GE(share.count, m / ranks);
        EXPECT_LE(share.count, (m + ranks - 1) / ranks);
        next += share.count;
      }
      EXPECT_EQ(next, m);
    }
  EXPECT_EQ(reproducible_refusal(8, 3), "a power of two of ranks");
  EXPECT_EQ(reproducible_refusal(4, 8), "as many micro-batches as ranks, or more");
  on_ranks(3, [](Communicator& own) {
    std::vector<double> sum(1);
    EXPECT_THROW(reproducible_all_reduce(own, {}, {}, sum), InputError);
  });
}

TEST(Communicator, GatherAllGivesEverybodyEverything) {
  on_ranks(5, [](Communicator& own) {
    const std::array bytes{static_cast<std::byte>(own.rank()), std::byte{7}};
    const std::vector<std::byte> all = gather_all(own, bytes);
    ASSERT_EQ(all.size(), 10U);
    for (std::size_t r = 0; r < 5; ++r) {
      EXPECT_EQ(all[2 * r], static_cast<std::byte>(r));
      EXPECT_EQ(all[2 * r + 1], std::byte{7});
    }
  });
}

}  // namespace
}  // namespace opbound
