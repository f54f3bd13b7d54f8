#include "distributed/train/data.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "ops/philox.hpp"
#include "suites/input_file.hpp"
#include "suites/sha256.hpp"

namespace opbound::train {
namespace {

constexpr std::uint32_t low(std::uint64_t v) { return static_cast<std::uint32_t>(v); }
constexpr std::uint32_t high(std::uint64_t v) { return static_cast<std::uint32_t>(v >> 32); }

/// Random bits of an epoch. The key differs from the run's seed, whose streams the ops use.
std::uint32_t epoch_word(std::uint64_t seed, std::uint64_t epoch, std::uint32_t a,
                         std::uint32_t b) {
  constexpr std::uint64_t data_stream = 0x64617461;  // "data"
  const std::uint64_t key = seed ^ (data_stream << 32);
  return philox({a, b, low(epoch), high(epoch)}, {low(key), high(key)})[0];
}

/// Where `index` of [0, count) stands in the epoch's permutation: a Feistel network over the next
/// power of 4, walked until it is back below `count` (Black and Rogaway 2002). Eight rounds,
/// because few windows mean halves of one or two bits.
std::uint64_t permuted(std::uint64_t index, std::uint64_t count, std::uint64_t seed,
                       std::uint64_t epoch) {
  constexpr std::uint32_t rounds = 8;
  const auto bits = static_cast<std::uint64_t>(std::bit_width(count - 1));
  const std::uint64_t half_bits = std::max<std::uint64_t>(1, (bits + 1) / 2);
  const std::uint64_t mask = (std::uint64_t{1} << half_bits) - 1;
  do {
    std::uint64_t left = index >> half_bits, right = index & mask;
    for (std::uint32_t round = 0; round < rounds; ++round) {
      const std::uint64_t mixed = left ^ (epoch_word(seed, epoch, low(right), round) & mask);
      left = right;
      right = mixed;
    }
    index = left << half_bits | right;
  } while (index >= count);
  return index;
}

}  // namespace

Text::Text(const std::filesystem::path& file) : name_(file.string()) {
  const InputFile checked(file);
  if (checked.size() == 0) checked.refuse("is empty", "a text");
  const int descriptor = ::open(name_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) checked.refuse("cannot be opened", "a file that may be read");
  mapped_ = ::mmap(nullptr, checked.size(), PROT_READ, MAP_PRIVATE, descriptor, 0);
  const int error = errno;
  ::close(descriptor);
  if (mapped_ == MAP_FAILED)
    checked.refuse(std::string("cannot be mapped: ") + std::strerror(error), "a file on disk");
  bytes_ = {static_cast<const std::uint8_t*>(mapped_), checked.size()};
  sha256_ = opbound::sha256(std::as_bytes(bytes_));
}

Text::~Text() { ::munmap(mapped_, bytes_.size()); }

Sampler::Sampler(const Text& text, const Sampling& sampling)
    : bytes_(text.bytes()), sampling_(sampling) {
  const std::int64_t context = sampling.context;
  detail::require(context > 0 && sampling.sequences > 0 && sampling.micro_batches > 0,
                  "a micro-batch has tokens");
  const auto size = static_cast<std::int64_t>(bytes_.size());
  // Two windows' bytes for training, since an epoch begins anywhere in the first; one to evaluate.
  if ((size - 1) / 3 < context)
    throw InputError(text.name(), std::to_string(size) + " bytes",
                     "at least 3 x " + std::to_string(context) + " + 1, for a context of " +
                         std::to_string(context));
  training_bytes_ = size - std::max(size / 10, context + 1);
  windows_ = (training_bytes_ - context) / context;
}

std::int64_t Sampler::window_at(std::int64_t epoch, std::int64_t place) const {
  detail::require(epoch >= 0 && place >= 0 && place < windows_, "a window of an epoch");
  const auto e = static_cast<std::uint64_t>(epoch);
  const auto context = static_cast<std::uint64_t>(sampling_.context);
  constexpr std::uint32_t begin = 0xffffffff;  // no round of the permutation
  const std::uint64_t word = static_cast<std::uint64_t>(epoch_word(sampling_.seed, e, 0, begin))
                                 << 32 |
                             epoch_word(sampling_.seed, e, 1, begin);
  const std::uint64_t window = permuted(static_cast<std::uint64_t>(place),
                                        static_cast<std::uint64_t>(windows_), sampling_.seed, e);
  return static_cast<std::int64_t>(word % context + window * context);
}

std::string Sampler::text_sha256() const { return opbound::sha256(std::as_bytes(bytes_)); }

std::int64_t Sampler::epoch(std::int64_t step) const {
  return step * sampling_.micro_batches * sampling_.sequences / windows_;
}

void Sampler::copy(std::int64_t row, std::int64_t at, const TensorView& tokens,
                   const TensorView& targets) const {
  for (std::int64_t t = 0; t < sampling_.context; ++t) {
    const std::int64_t to = row * sampling_.context + t;
    const auto from = static_cast<std::size_t>(at + t);
    store_index(tokens.element, tokens.data, to, bytes_[from]);
    store_index(targets.element, targets.data, to, bytes_[from + 1]);
  }
}

namespace {

void require_batch(const TensorView& view, const Sampling& s) {
  detail::require(view.element == Element::int64 && view.rank == 2 && view.is_contiguous() &&
                      view.size[0] == s.sequences && view.size[1] == s.context,
                  "tokens and targets are int64 [sequences, context]");
}

}  // namespace

void Sampler::fill(std::int64_t step, std::int64_t g, const TensorView& tokens,
                   const TensorView& targets) const {
  require_batch(tokens, sampling_);
  require_batch(targets, sampling_);
  detail::require(step >= 0 && g >= 0 && g < sampling_.micro_batches, "a micro-batch of the step");
  const std::int64_t first = (step * sampling_.micro_batches + g) * sampling_.sequences;
  for (std::int64_t row = 0; row < sampling_.sequences; ++row) {
    const std::int64_t place = first + row;
    copy(row, window_at(place / windows_, place % windows_), tokens, targets);
  }
}

std::int64_t Sampler::evaluation_windows() const {
  return (static_cast<std::int64_t>(bytes_.size()) - training_bytes_ - 1) / sampling_.context;
}

std::int64_t Sampler::evaluation_batches() const {
  return std::max<std::int64_t>(1, evaluation_windows() / sampling_.sequences);
}

void Sampler::fill_evaluation(std::int64_t batch, const TensorView& tokens,
                              const TensorView& targets) const {
  require_batch(tokens, sampling_);
  require_batch(targets, sampling_);
  detail::require(batch >= 0 && batch < evaluation_batches(), "a micro-batch of the evaluation");
  for (std::int64_t row = 0; row < sampling_.sequences; ++row) {
    const std::int64_t window = (batch * sampling_.sequences + row) % evaluation_windows();
    copy(row, training_bytes_ + window * sampling_.context, tokens, targets);
  }
}

}  // namespace opbound::train
