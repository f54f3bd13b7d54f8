#include "distributed/simulated.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <queue>

#include "generated/version.hpp"
#include "ops/philox.hpp"
#include "ops/provider.hpp"
#include "ops/tensor.hpp"
#include "reports/text.hpp"

namespace opbound {
namespace {

/// What a random number is for.
enum class Draw : std::uint32_t { delay, loss, skew, compute };

/// A uniform 32-bit word for a place of the run.
std::uint32_t drawn(std::uint64_t seed, Draw draw, std::int64_t a, std::int64_t b = 0,
                    std::int64_t c = 0, std::int64_t d = 0) {
  const auto word = [](std::int64_t v) { return static_cast<std::uint32_t>(v); };
  const std::uint32_t place = static_cast<std::uint32_t>(draw) | (word(d) << 4);
  return philox({word(a), word(b), word(c), place},
                {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)})[0];
}

/// Uniform on 0, ..., most.
std::int64_t scaled(std::uint32_t word, std::int64_t most) {
  return static_cast<std::int64_t>(
      (static_cast<std::uint64_t>(word) * (static_cast<std::uint64_t>(most) + 1)) >> 32);
}

struct Arrival {
  std::int64_t time;
  std::uint64_t sequence;  ///< so that what arrives at one time has an order
  Letter letter;
};
struct Later {
  bool operator()(const Arrival& a, const Arrival& b) const {
    return a.time != b.time ? a.time > b.time : a.sequence > b.sequence;
  }
};

struct SimulatedRank {
  RankProgram program;
  std::int64_t clock = 0;
  bool has_sent = false;          ///< what this round sends
  std::vector<Message> messages;  ///< of this round
  std::vector<Letter> mailbox;
};

class Simulation {
 public:
  Simulation(const SimulationOptions& options, const Circumstances& circumstances,
             const Schedule& schedule, const Reducer& reducer, Buffers& buffers)
      : options_(options),
        late_(circumstances.late),
        seed_(options.seed + circumstances.disturbance) {
    auto moves = moves_of_all(schedule, std::ssize(buffers.front()));
    for (std::size_t r = 0; r < moves.size(); ++r) {
      ranks_.push_back({{schedule, reducer, std::move(moves[r]), buffers[r]}, 0, false, {}, {}});
      ranks_.back().clock = start_of(static_cast<std::int64_t>(r));
      read_too_early(static_cast<std::int64_t>(r), buffers[r]);
    }
  }

  SimulationCount run() {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      count_.first_start = r == 0 ? ranks_[r].clock : std::min(count_.first_start, ranks_[r].clock);
      count_.last_start = std::max(count_.last_start, ranks_[r].clock);
      proceed(static_cast<std::int32_t>(r));
    }
    while (!arrivals_.empty()) {
      Arrival next = arrivals_.top();
      arrivals_.pop();
      const std::int32_t to = next.letter.to;
      SimulatedRank& rank = at(to);
      rank.clock = std::max(rank.clock, next.time);
      rank.mailbox.push_back(std::move(next.letter));
      proceed(to);
    }
    refuse_unfinished();
    if (options_.dead_rank >= 0)
      throw Unavailable(fmt::format("rank {} does not come to round {}", options_.dead_rank,
                                    options_.dead_round));
    count_.first_end = ranks_.front().clock;
    for (const SimulatedRank& rank : ranks_) {
      count_.first_end = std::min(count_.first_end, rank.clock);
      count_.last_end = std::max(count_.last_end, rank.clock);
    }
    return count_;
  }

 private:
  SimulatedRank& at(std::int32_t r) { return ranks_[static_cast<std::size_t>(r)]; }
  const SimulatedRank& at(std::int32_t r) const { return ranks_[static_cast<std::size_t>(r)]; }

  std::int64_t start_of(std::int64_t r) const {
    return scaled(drawn(seed_, Draw::skew, r), options_.most_skew);
  }

  /// A tensor whose stream nobody waits for holds zeros where its stream is later than its rank.
  void read_too_early(std::int64_t r, std::vector<double>& buffer) const {
    const std::int64_t most_late = 1024 * (options_.most_skew + 1);
    for (std::size_t t = 0; t < late_.size(); ++t) {
      const TensorRange& tensor = late_[t];
      const auto& unwaited = options_.unwaited;
      if (std::find(unwaited.begin(), unwaited.end(), tensor.name) == unwaited.end()) continue;
      const auto word = drawn(seed_, Draw::compute, r, static_cast<std::int64_t>(t));
      if (scaled(word, most_late) <= start_of(r)) continue;
      const auto first = buffer.begin() + tensor.range.first;
      std::fill(first, first + tensor.range.count, 0.0);
    }
  }

  bool is_dead(std::int32_t r) const {
    return r == options_.dead_rank && !at(r).program.is_done() &&
           at(r).program.round() >= options_.dead_round;
  }

  /// As far as the rank gets with what has arrived.
  void proceed(std::int32_t r) {
    SimulatedRank& rank = at(r);
    while (!rank.program.is_done() && !is_dead(r)) {
      if (!rank.has_sent) {
        rank.messages = rank.program.messages();
        for (const Message& m : rank.messages)
          if (m.sends) send(r, m);
        rank.has_sent = true;
      }
      if (!receive(rank)) return;
      rank.program.advance();
      rank.has_sent = false;
    }
  }

  void send(std::int32_t r, const Message& message) {
    const std::int32_t round = at(r).program.round();
    Letter letter{r, message.peer, round, at(r).program.payload(message)};
    ++count_.messages;
    count_.elements += message.elements;
    if (options_.tamper) options_.tamper(letter);
    std::int64_t time = at(r).clock;
    for (std::int64_t attempt = 0;; ++attempt) {
      const auto delay = drawn(seed_, Draw::delay, r, message.peer, round, attempt);
      time += 1 + scaled(delay, options_.most_delay - 1);
      const auto luck = drawn(seed_, Draw::loss, r, message.peer, round, attempt);
      if (static_cast<double>(luck) * 0x1p-32 >= options_.lost) break;
      if (!options_.resends) return;
      ++count_.resent;
    }
    arrivals_.push({time, sequence_++, std::move(letter)});
  }

  /// Takes in the round's messages once all of them are there.
  static bool receive(SimulatedRank& rank) {
    std::vector<std::pair<const Message*, std::size_t>> found;
    for (const Message& m : rank.messages) {
      if (m.sends) continue;
      const auto letter = letter_for(rank, m);
      if (letter == rank.mailbox.size()) return false;
      found.emplace_back(&m, letter);
    }
    for (const auto& [message, letter] : found)
      rank.program.take(*message, rank.mailbox[letter].payload);
    std::erase_if(rank.mailbox, [&](const Letter& l) { return l.round == rank.program.round(); });
    return true;
  }

  static std::size_t letter_for(const SimulatedRank& rank, const Message& message) {
    std::size_t k = 0;
    while (k < rank.mailbox.size() &&
           (rank.mailbox[k].from != message.peer || rank.mailbox[k].round != rank.program.round()))
      ++k;
    return k;
  }

  /// Says which ranks do not go on by themselves, and how many wait for them.
  void refuse_unfinished() const {
    std::int64_t unfinished = 0;
    for (const SimulatedRank& rank : ranks_) unfinished += rank.program.is_done() ? 0 : 1;
    if (unfinished == 0) return;
    if (options_.dead_rank >= 0)
      throw ProviderFailure(fmt::format("rank {} died in round {}; {} other ranks wait",
                                        options_.dead_rank, options_.dead_round, unfinished - 1));
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const SimulatedRank& rank = ranks_[r];
      for (const Message& m : rank.messages) {
        if (rank.program.is_done() || m.sends || letter_for(rank, m) < rank.mailbox.size())
          continue;
        if (!has_passed(m.peer, rank.program.round())) continue;
        throw ProviderFailure(
            fmt::format("rank {} waits for rank {} in round {}, whose message "
                        "was lost; {} ranks do not end",
                        r, m.peer, rank.program.round(), unfinished));
      }
    }
    detail::require(false, "ranks that do not end wait for one that has sent");
  }

  /// Has the rank sent what it sends in this round?
  bool has_passed(std::int32_t r, std::int32_t round) const {
    const SimulatedRank& rank = at(r);
    if (rank.program.is_done()) return true;
    return rank.program.round() > round || (rank.program.round() == round && rank.has_sent);
  }

  const SimulationOptions& options_;
  const std::vector<TensorRange>& late_;
  std::uint64_t seed_;
  std::vector<SimulatedRank> ranks_;
  std::priority_queue<Arrival, std::vector<Arrival>, Later> arrivals_;
  std::uint64_t sequence_ = 0;
  SimulationCount count_;
};

EngineTraits traits_of(const SimulationOptions& options) {
  EngineTraits traits{.name = "simulated", .version = opbound::version, .has_streams = true};
  auto& all = traits.environment;
  all.emplace_back("simulation_seed", std::to_string(options.seed));
  if (options.lost > 0) all.emplace_back("lost", shortest(options.lost));
  if (options.dead_rank >= 0) {
    all.emplace_back("dead_rank", std::to_string(options.dead_rank));
    all.emplace_back("dead_round", std::to_string(options.dead_round));
  }
  if (!options.unwaited.empty())
    all.emplace_back("unwaited", fmt::format("{}", fmt::join(options.unwaited, ",")));
  return traits;
}

}  // namespace

SimulatedRanks::SimulatedRanks(std::int32_t ranks, SimulationOptions options)
    : Engine(traits_of(options), {ranks, 0, ranks}), options_(std::move(options)) {}

std::string SimulatedRanks::timing() {
  return fmt::format(
      "the last run: ranks started within {} ticks of one another and ended within {}, the last at "
      "{}; {} messages, {} sent again\n",
      count_.last_start - count_.first_start, count_.last_end - count_.first_end, count_.last_end,
      count_.messages, count_.resent);
}

void SimulatedRanks::run_under(const Circumstances& circumstances, const Schedule& schedule,
                               const Reducer& reducer, Buffers& buffers) {
  if (buffers.empty()) return;
  count_ = Simulation(options_, circumstances, schedule, reducer, buffers).run();
}

}  // namespace opbound
