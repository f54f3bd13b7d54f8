// A rank's part in a collective, round by round: written once, driven by whatever moves messages.
#pragma once

#include <span>
#include <vector>

#include "distributed/communicator.hpp"
#include "distributed/schedule.hpp"
#include "ops/all_reduce.hpp"
#include "ops/format.hpp"

namespace opbound {

/// How ranks' elements become one. Values are doubles that the formats hold; computing in double
/// and rounding again gives the format's own sums and quotients (Figueroa 1995: 53 >= 2 p + 2).
struct Reducer {
  Format compute = fp32;
  Format wire = fp32;  ///< what a partial result is stored in, and travels in
  all_reduce::Reduction reduction = all_reduce::Reduction::sum;
  all_reduce::Divides divides = all_reduce::Divides::after;
  std::int64_t terms = 1;  ///< ranks, or micro-batches: a mean's divisor

  bool is_mean() const { return reduction == all_reduce::Reduction::mean; }
  /// A stored x as the term that is added; a share of it where a mean divides before.
  double term(double x) const;
  /// Two partial results as they are held before they are stored; b and a give the same bits.
  double combined(double a, double b) const;
  /// The complete result: a mean that divides after is divided here.
  double finished(double total) const;
  double kept(double x) const { return round_to(wire, x); }
};

Reducer reducer_of(const all_reduce::Attributes& attributes, const Format& compute,
                   const Format& output, std::int64_t terms);

/// What a rank does with a chunk in a round.
struct Move {
  std::int32_t peer;
  std::int32_t round;
  std::int32_t chunk;
  bool sends;
  Combine combine;
};

/// One message of a round: all chunks between two ranks, in order.
struct Message {
  std::int32_t peer;
  bool sends;
  std::int64_t elements;
  std::vector<Move> moves;
};

/// Every rank's moves, by round. Empty chunks move nowhere.
std::vector<std::vector<Move>> moves_of_all(const Schedule& schedule, std::int64_t elements);
std::vector<Move> moves_of(const Schedule& schedule, std::int64_t elements, std::int32_t rank);

/// One rank's progress through its moves over its buffer, whose elements are terms at first and,
/// where the rank is told them, results at the end.
class RankProgram {
 public:
  RankProgram(const Schedule& schedule, const Reducer& reducer, std::vector<Move> moves,
              std::span<double> buffer)
      : schedule_(&schedule), reducer_(&reducer), moves_(std::move(moves)), buffer_(buffer) {}

  bool is_done() const { return next_ == moves_.size(); }
  std::int32_t round() const { return moves_[next_].round; }

  /// The messages of this round.
  std::vector<Message> messages() const;
  /// What a message of this round carries, in the order of its chunks.
  std::vector<double> payload(const Message& message) const;
  /// Takes in what has come; sends of this round have been read before.
  void take(const Message& message, std::span<const double> payload);
  /// Goes on to the next round.
  void advance();

 private:
  /// What all ranks have of a chunk is added in their order.
  void add_all();
  Chunk chunk(const Move& move) const {
    return chunk_of(*schedule_, std::ssize(buffer_), move.chunk);
  }

  const Schedule* schedule_;
  const Reducer* reducer_;
  std::vector<Move> moves_;
  std::span<double> buffer_;
  std::size_t next_ = 0;
  std::vector<std::pair<Move, std::vector<double>>> others_;  ///< come, to be added all at once
};

/// Runs this rank's part to its end. Throws ProviderFailure where the transport breaks.
void run_collective(Communicator& communicator, const Schedule& schedule, const Reducer& reducer,
                    std::span<double> buffer);

}  // namespace opbound
