// The data of a training run: what a window is, that each comes once in an epoch, and that nothing
// but seed, step and place decides.
#include "distributed/train/data.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "reports/error.hpp"
#include "suites/sha256.hpp"
#include "tests/temporary_folder.hpp"

namespace opbound::train {
namespace {

std::string sha256_of(std::string_view text) { return sha256(std::as_bytes(std::span(text))); }

// The vectors of FIPS 180-4's examples, and lengths around a block's end against Python's hashlib.
TEST(Sha256, GivesTheStandardsDigests) {
  EXPECT_EQ(sha256_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_of(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, LengthsAroundABlock) {
  // hashlib.sha256("".join(hashlib.sha256(b"x" * n).hexdigest() for n in range(130)).encode())
  std::string all;
  for (std::size_t n = 0; n < 130; ++n) all += sha256_of(std::string(n, 'x'));
  EXPECT_EQ(sha256_of(all), "199af942eba7fa5d1e16d475169eb24018b14e69339c93d26a9ea6d873b4ace6");
}

TEST(Sha256, PiecesDoNotMatter) {
  const std::string text(1000, 'q');
  for (const std::size_t piece : {1U, 7U, 63U, 64U, 65U, 999U}) {
    Sha256 hash;
    for (std::size_t at = 0; at < text.size(); at += piece)
      hash.take(std::as_bytes(std::span(text).subspan(at, std::min(piece, text.size() - at))));
    EXPECT_EQ(hash.digest(), sha256_of(text)) << piece;
  }
}

class TrainData : public TemporaryFolder {
 protected:
  /// A text whose byte i tells i modulo 251: no two windows that begin nearby look the same.
  std::string counting(std::size_t bytes) const {
    std::string text(bytes, '\0');
    for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i % 251);
    return put("text", text);
  }

  static std::string refusal(const auto& action) {
    try {
      action();
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  }
};

struct Batch {
  explicit Batch(const Sampling& s)
      : tokens(Element::int64, {s.sequences, s.context}), targets(tokens) {}
  bool operator==(const Batch& other) const {
    return std::ranges::equal(tokens.bytes(), other.tokens.bytes()) &&
           std::ranges::equal(targets.bytes(), other.targets.bytes());
  }
  Tensor tokens, targets;
};

Batch batch_of(const Sampler& sampler, const Sampling& s, std::int64_t step, std::int64_t g) {
  Batch batch(s);
  sampler.fill(step, g, batch.tokens.view(), batch.targets.view());
  return batch;
}

TEST_F(TrainData, TargetsAreTheNextTokens) {
  const Text text(counting(5000));
  const Sampling s{.context = 16, .sequences = 3, .micro_batches = 4, .seed = 7};
  const Sampler sampler(text, s);
  for (std::int64_t step = 0; step < 30; ++step)
    for (std::int64_t g = 0; g < s.micro_batches; ++g) {
      const Batch b = batch_of(sampler, s, step, g);
      for (std::int64_t row = 0; row < s.sequences; ++row) {
        const std::int64_t k = (step * s.micro_batches + g) * s.sequences + row;
        const std::int64_t at = sampler.window_at(k / sampler.windows(), k % sampler.windows());
        for (std::int64_t t = 0; t < s.context; ++t) {
          const std::int64_t i = row * s.context + t;
          ASSERT_EQ(b.tokens.index_at(i), (at + t) % 251);
          ASSERT_EQ(b.targets.index_at(i), (at + t + 1) % 251);
        }
      }
    }
}

// Every byte value is a token of its own, 128 to 255 too.
TEST_F(TrainData, TokensAreUnsigned) {
  const Text text(put("text", std::string(100, '\xff')));
  const Sampling s{.context = 4, .sequences = 1, .micro_batches = 1, .seed = 1};
  const Batch b = batch_of(Sampler(text, s), s, 0, 0);
  EXPECT_EQ(b.tokens.index_at(0), 255);
  EXPECT_EQ(b.targets.index_at(3), 255);
}

TEST_F(TrainData, NoWindowTwiceInAnEpoch) {
  for (const std::size_t bytes : {13U, 14U, 17U, 25U, 50U, 100U, 1000U, 4097U}) {
    const Text text(counting(bytes));
    const Sampling s{.context = 4, .sequences = 2, .micro_batches = 2, .seed = 3};
    const Sampler sampler(text, s);
    const auto size = static_cast<std::int64_t>(bytes);
    const std::int64_t evaluation = std::max<std::int64_t>(size / 10, s.context + 1);
    for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
      std::set<std::int64_t> begins;
      for (std::int64_t place = 0; place < sampler.windows(); ++place)
        begins.insert(sampler.window_at(epoch, place));
      ASSERT_EQ(static_cast<std::int64_t>(begins.size()), sampler.windows()) << bytes;
      // They do not overlap, and none of them reaches the part that is for evaluation.
      EXPECT_EQ(*begins.rbegin() - *begins.begin(), (sampler.windows() - 1) * s.context);
      EXPECT_GE(*begins.begin(), 0);
      EXPECT_LT(*begins.rbegin() + s.context, size - evaluation) << bytes;
    }
  }
}

TEST_F(TrainData, EpochsAndSeedsDiffer) {
  const Text text(counting(3000));
  std::set<std::vector<std::int64_t>> orders;
  for (const std::uint64_t seed : {0ULL, 1ULL, 1ULL << 32, ~0ULL})
    for (std::int64_t epoch = 0; epoch < 5; ++epoch) {
      const Sampler sampler(text, {.context = 8, .sequences = 1, .micro_batches = 1, .seed = seed});
      std::vector<std::int64_t> order;
      for (std::int64_t place = 0; place < sampler.windows(); ++place)
        order.push_back(sampler.window_at(epoch, place));
      orders.insert(order);
    }
  EXPECT_EQ(orders.size(), 20U);
}

// Four windows have 24 orders. Under an equal chance each of 24,000 epochs has one of them, and
// Pearson's sum is beyond 58.58 with a probability of 2^-14 (23 degrees of freedom). The seed is
// fixed, so the outcome is too.
TEST_F(TrainData, OrdersAreEquallyFrequent) {
  const Text text(counting(26));
  const Sampler sampler(text, {.context = 4, .sequences = 1, .micro_batches = 1, .seed = 5});
  ASSERT_EQ(sampler.windows(), 4);
  std::map<std::vector<std::int64_t>, int> frequency;
  constexpr int epochs = 24000;
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
    std::vector<std::int64_t> order;
    for (std::int64_t place = 0; place < 4; ++place)
      order.push_back(sampler.window_at(epoch, place) / 4);
    ++frequency[order];
  }
  EXPECT_EQ(frequency.size(), 24U);
  double pearson = 0;
  for (const auto& [order, n] : frequency)
    pearson += (n - epochs / 24.0) * (n - epochs / 24.0) / (epochs / 24.0);
  EXPECT_LT(pearson, 58.58);
}

// Ranks share one global order: what a step reads is the same however it is dealt out, and a run
// that is resumed needs the step and nothing else.
TEST_F(TrainData, StepAndPlaceAloneDecide) {
  const Text text(counting(2000));
  const Sampling s{.context = 8, .sequences = 2, .micro_batches = 8, .seed = 11};
  const Sampler used(text, s);
  for (std::int64_t step = 0; step < 40; ++step)
    for (std::int64_t g = 0; g < 8; ++g) batch_of(used, s, step, g);
  for (const std::int64_t step : {0, 13, 39}) {
    const Sampler fresh(text, s);
    for (std::int64_t g = 7; g >= 0; --g)
      EXPECT_EQ(batch_of(fresh, s, step, g), batch_of(used, s, step, g)) << step << " " << g;
  }
  // The same windows in micro-batches of another size.
  const Sampling single{.context = 8, .sequences = 1, .micro_batches = 16, .seed = 11};
  const Sampler other(text, single);
  for (std::int64_t k = 0; k < 16; ++k) {
    const Batch one = batch_of(other, single, 3, k), two = batch_of(used, s, 3, k / 2);
    for (std::int64_t t = 0; t < 8; ++t)
      EXPECT_EQ(one.tokens.index_at(t), two.tokens.index_at(k % 2 * 8 + t));
  }
}

TEST_F(TrainData, AStepMayBeLongerThanAnEpoch) {
  const Text text(counting(13));  // one window to train on
  const Sampling s{.context = 4, .sequences = 3, .micro_batches = 2, .seed = 1};
  const Sampler sampler(text, s);
  EXPECT_EQ(sampler.windows(), 1);
  EXPECT_EQ(sampler.epoch(2), 12);
  for (std::int64_t g = 0; g < 2; ++g) batch_of(sampler, s, 5, g);
}

TEST_F(TrainData, EvaluationIsTheLastTenthInOrder) {
  const Text text(counting(1000));
  const Sampling s{.context = 8, .sequences = 2, .micro_batches = 1, .seed = 1};
  const Sampler sampler(text, s);
  ASSERT_EQ(sampler.evaluation_batches(), 6);  // 100 bytes, 12 windows
  for (std::int64_t batch = 0; batch < 6; ++batch) {
    Batch b(s);
    sampler.fill_evaluation(batch, b.tokens.view(), b.targets.view());
    for (std::int64_t i = 0; i < 16; ++i) {
      EXPECT_EQ(b.tokens.index_at(i), (900 + batch * 16 + i) % 251);
      EXPECT_EQ(b.targets.index_at(i), (901 + batch * 16 + i) % 251);
    }
  }
  const Text least(counting(25));
  const Sampler one(least, s);
  EXPECT_EQ(one.evaluation_batches(), 1);  // its one window stands in both rows
  Batch b(s);
  one.fill_evaluation(0, b.tokens.view(), b.targets.view());
  for (std::int64_t i = 0; i < 16; ++i) EXPECT_EQ(b.tokens.index_at(i), 16 + i % 8);
}

TEST_F(TrainData, ABadTextIsOneLine) {
  const auto read = [](const std::string& file) { return [file] { const Text text(file); }; };
  EXPECT_EQ(refusal(read(path("none"))),
            path("none") + ": no such file, expected a file that exists");
  EXPECT_EQ(refusal(read(folder_.string())),
            folder_.string() + ": is a directory, expected a file");
  EXPECT_EQ(refusal(read(put("empty", ""))), path("empty") + ": is empty, expected a text");
  const Sampling s{.context = 8, .sequences = 1, .micro_batches = 1, .seed = 1};
  const Text longest_short(put("short", std::string(24, 'x')));
  EXPECT_EQ(refusal([&] { const Sampler sampler(longest_short, s); }),
            path("short") + ": 24 bytes, expected at least 3 x 8 + 1, for a context of 8");
  const Text shortest(put("enough", std::string(25, 'x')));
  EXPECT_EQ(refusal([&] { const Sampler sampler(shortest, s); }), "");
}

TEST_F(TrainData, TheHashIsThatOfTheFile) {
  const Text text(put("text", "abc"));
  EXPECT_EQ(text.sha256(), sha256_of("abc"));
  EXPECT_EQ(text.name(), path("text"));
  EXPECT_EQ(text.bytes().size(), 3U);
}

// The project's own text: plain, and long enough for every ready model.
TEST(TrainText, IsPlainText) {
  const Text text(std::string(OPBOUND_SOURCE_DIR) + "/suites/training/text.txt");
  EXPECT_GE(text.bytes().size(), 60000U);
  EXPECT_LE(text.bytes().size(), 1000000U);
  for (const std::uint8_t byte : text.bytes())
    ASSERT_TRUE(byte == '\n' || (byte >= ' ' && byte < 127)) << int{byte};
  EXPECT_GE(
      Sampler(text, {.context = 1024, .sequences = 1, .micro_batches = 1, .seed = 1}).windows(),
      50);
}

}  // namespace
}  // namespace opbound::train
