#include "distributed/program.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "ops/number.hpp"
#include "ops/tensor.hpp"

namespace opbound {
namespace {

void put(std::vector<Move>& moves, const Transfer& t, std::int32_t chunk, bool sends) {
  moves.push_back({sends ? t.to : t.from, t.round, chunk, sends, t.combine});
}

void sort_by_round(std::vector<Move>& moves) {
  std::stable_sort(moves.begin(), moves.end(),
                   [](const Move& a, const Move& b) { return a.round < b.round; });
}

}  // namespace

double Reducer::term(double x) const {
  const double own = round_to(compute, x);
  if (!is_mean() || divides == all_reduce::Divides::after) return own;
  const double share = round_to(compute, 1 / static_cast<double>(terms));
  return round_to(compute, own * share);
}

double Reducer::combined(double a, double b) const {
  switch (reduction) {
    case all_reduce::Reduction::max:  // +0 is above -0: which operand is first is the transport's
      return a == b && std::signbit(a) ? b : max(a, b);
    case all_reduce::Reduction::min:
      return a == b && std::signbit(b) ? b : min(a, b);
    default:
      return round_to(compute, a + b);
  }
}

double Reducer::finished(double total) const {
  if (!is_mean() || divides == all_reduce::Divides::before) return total;
  return round_to(compute, total / round_to(compute, static_cast<double>(terms)));
}

Reducer reducer_of(const all_reduce::Attributes& a, const Format& compute, const Format& output,
                   std::int64_t terms) {
  return {compute, a.hop == all_reduce::Hop::output ? output : compute, a.reduction, a.divides,
          terms};
}

std::vector<std::vector<Move>> moves_of_all(const Schedule& schedule, std::int64_t elements) {
  std::vector<std::vector<Move>> all(static_cast<std::size_t>(schedule.ranks));
  for (std::int32_t c = 0; c < chunk_count(schedule); ++c) {
    if (chunk_of(schedule, elements, c).count == 0) continue;
    for (const Transfer& t : transfers_of(schedule, c)) {
      put(all[static_cast<std::size_t>(t.from)], t, c, true);
      put(all[static_cast<std::size_t>(t.to)], t, c, false);
    }
  }
  for (auto& moves : all) sort_by_round(moves);
  return all;
}

std::vector<Move> moves_of(const Schedule& schedule, std::int64_t elements, std::int32_t rank) {
  std::vector<Move> moves;
  for (std::int32_t c = 0; c < chunk_count(schedule); ++c) {
    if (chunk_of(schedule, elements, c).count == 0) continue;
    for (const Transfer& t : transfers_of(schedule, c)) {
      if (t.from == rank) put(moves, t, c, true);
      if (t.to == rank) put(moves, t, c, false);
    }
  }
  sort_by_round(moves);
  return moves;
}

std::vector<Message> RankProgram::messages() const {
  std::vector<Message> all;
  for (std::size_t k = next_; k < moves_.size() && moves_[k].round == round(); ++k) {
    const Move& move = moves_[k];
    auto place = std::find_if(all.begin(), all.end(), [&](const Message& m) {
      return m.peer == move.peer && m.sends == move.sends;
    });
    if (place == all.end()) place = all.insert(all.end(), {move.peer, move.sends, 0, {}});
    place->elements += chunk(move).count;
    place->moves.push_back(move);
  }
  return all;
}

std::vector<double> RankProgram::payload(const Message& message) const {
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(message.elements));
  for (const Move& move : message.moves) {
    const Chunk c = chunk(move);
    for (std::int64_t i = c.first; i < c.first + c.count; ++i)
      values.push_back(reducer_->kept(buffer_[static_cast<std::size_t>(i)]));
  }
  return values;
}

void RankProgram::take(const Message& message, std::span<const double> payload) {
  std::size_t next = 0;
  for (const Move& move : message.moves) {
    const Chunk c = chunk(move);
    if (move.combine == Combine::add_all) {
      const auto part = payload.subspan(next, static_cast<std::size_t>(c.count));
      others_.emplace_back(move, std::vector(part.begin(), part.end()));
      next += part.size();
      continue;
    }
    for (std::int64_t i = c.first; i < c.first + c.count; ++i) {
      double& own = buffer_[static_cast<std::size_t>(i)];
      const double come = payload[next++];
      if (move.combine == Combine::copy) {
        own = come;
        continue;
      }
      const double total = reducer_->combined(reducer_->kept(own), come);
      own = reducer_->kept(move.combine == Combine::last_add ? reducer_->finished(total) : total);
    }
  }
}

void RankProgram::add_all() {
  std::ranges::sort(others_, {}, [](const auto& other) { return other.first.peer; });
  std::size_t own_place = 0;  // the rank that is not among the others
  while (own_place < others_.size() && std::cmp_equal(others_[own_place].first.peer, own_place))
    ++own_place;
  const Chunk c = chunk(others_.front().first);
  for (std::int64_t i = 0; i < c.count; ++i) {
    double& own = buffer_[static_cast<std::size_t>(c.first + i)];
    const auto term = [&](std::size_t r) {
      if (r == own_place) return reducer_->kept(own);
      return others_[r < own_place ? r : r - 1].second[static_cast<std::size_t>(i)];
    };
    double total = term(0);
    for (std::size_t r = 1; r <= others_.size(); ++r) total = reducer_->combined(total, term(r));
    own = reducer_->kept(reducer_->finished(total));
  }
  others_.clear();
}

void RankProgram::advance() {
  if (!others_.empty()) add_all();
  const std::int32_t done = round();
  while (next_ < moves_.size() && moves_[next_].round == done) ++next_;
}

void run_collective(Communicator& communicator, const Schedule& schedule, const Reducer& reducer,
                    std::span<double> buffer) {
  const Element element = element_of(reducer.wire);
  const auto width = static_cast<std::size_t>(bytes_of(element));
  RankProgram program(schedule, reducer,
                      moves_of(schedule, std::ssize(buffer), communicator.rank()), buffer);
  while (!program.is_done()) {
    const std::vector<Message> messages = program.messages();
    std::vector<std::vector<std::byte>> bytes;
    std::vector<Sent> sent;
    std::vector<Received> received;
    for (const Message& m : messages) {
      auto& block = bytes.emplace_back(static_cast<std::size_t>(m.elements) * width);
      if (!m.sends) {
        received.push_back({m.peer, program.round(), block});
        continue;
      }
      const std::vector<double> values = program.payload(m);
      for (std::size_t i = 0; i < values.size(); ++i)
        store(element, block.data(), static_cast<std::int64_t>(i), values[i]);
      sent.push_back({m.peer, program.round(), block});
    }
    communicator.exchange(sent, received);
    for (std::size_t k = 0; k < messages.size(); ++k) {
      if (messages[k].sends) continue;
      std::vector<double> values(static_cast<std::size_t>(messages[k].elements));
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = load(element, bytes[k].data(), static_cast<std::int64_t>(i));
      program.take(messages[k], values);
    }
    program.advance();
  }
}

std::vector<std::byte> gather_all(Communicator& communicator, std::span<const std::byte> own) {
  const auto ranks = static_cast<std::size_t>(communicator.size());
  const auto rank = static_cast<std::size_t>(communicator.rank());
  std::vector<std::byte> all(ranks * own.size());
  const auto block = [&](std::size_t r) {
    return std::span(all).subspan(r % ranks * own.size(), own.size());
  };
  std::copy(own.begin(), own.end(), block(rank).begin());
  const auto next = static_cast<std::int32_t>((rank + 1) % ranks);
  const auto before = static_cast<std::int32_t>((rank + ranks - 1) % ranks);
  for (std::size_t k = 0; k + 1 < ranks; ++k) {
    const auto tag = static_cast<std::int32_t>(k);
    const Sent sent{next, tag, block(rank + ranks - k)};
    const Received received{before, tag, block(rank + 2 * ranks - k - 1)};
    communicator.exchange({&sent, 1}, {&received, 1});
  }
  return all;
}

}  // namespace opbound
