// The tree of a rank's own micro-batches, over buffers that somebody else owns.
#include <algorithm>

#include "distributed/collectives.hpp"
#include "ops/tensor.hpp"
#include "reports/error.hpp"

namespace opbound {

MicroBatchSum::MicroBatchSum(Collectives& ranks, const Reducer& reducer, std::int64_t count)
    : ranks_(ranks), reducer_(reducer), count_(count) {
  const std::string_view wanted = reproducible_refusal(reducer.terms, ranks.size());
  if (!wanted.empty())
    throw InputError("sum of micro-batches",
                     std::to_string(ranks.size()) + " ranks, " + std::to_string(reducer.terms) +
                         " micro-batches",
                     wanted);
  const std::string other = ranks.refusal_of(reducer, all_reduce::balanced_tree);
  if (!other.empty()) throw InputError("sum of micro-batches", ranks.name(), other);
  share_ = share_of(reducer.terms, ranks.size(), ranks.rank());
  adds_ = additions_after(share_.count);
}

std::int32_t MicroBatchSum::slot_count() const { return most_held(adds_); }

void MicroBatchSum::begin(std::span<void* const> slots) {
  detail::require(std::ssize(slots) >= slot_count(), "a slot for each sum that is held");
  slots_.assign(slots.begin(), slots.end());
  taken_ = held_ = 0;
}

void* MicroBatchSum::next() const {
  detail::require(taken_ < adds_.size() && held_ < slots_.size(), "a micro-batch that is left");
  return slots_[held_];
}

void MicroBatchSum::take(void* stream) {
  detail::require(taken_ < adds_.size(), "a micro-batch that is left");
  ++held_;
  const bool is_last = ++taken_ == adds_.size();
  for (std::int32_t left = adds_[taken_ - 1]; left > 0; --left, --held_)
    ranks_.add(slots_[held_ - 2], slots_[held_ - 1], count_, reducer_,
               is_last && left == 1 && ranks_.size() == 1, stream);
}

void MicroBatchSum::all_reduce(void* stream) {
  detail::require(taken_ == adds_.size(), "all micro-batches of the rank's share");
  if (ranks_.size() > 1)
    ranks_.all_reduce(slots_[0], count_, reducer_, all_reduce::balanced_tree, stream);
}

void MicroBatchSum::reduce_scatter(void* stream) {
  detail::require(taken_ == adds_.size(), "all micro-batches of the rank's share");
  if (ranks_.size() > 1)
    ranks_.reduce_scatter(slots_[0], count_, reducer_, all_reduce::balanced_tree, stream);
}

}  // namespace opbound
