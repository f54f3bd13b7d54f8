#include "distributed/train/gradient_sum.hpp"

#include "distributed/train/cast_call.hpp"
#include "reports/error.hpp"

namespace opbound::train {

Share micro_batches_of(const TrainingSpec& spec, std::int32_t ranks, std::int32_t rank) {
  if (spec.policy.reproducible_sum) return share_of(spec.micro_batches, ranks, rank);
  const std::int64_t first = spec.micro_batches * rank / ranks;
  return {first, spec.micro_batches * (rank + 1) / ranks - first};
}

GradientSum::GradientSum(const TrainingSpec& spec, const Layout& layout, Collectives& ranks,
                         Machine& machine, const Provider& casts)
    : spec_(spec),
      layout_(layout),
      ranks_(ranks),
      machine_(machine),
      casts_(casts),
      is_sharded_(is_sharded(spec.sharding)),
      element_(element_of(spec.policy.gradient)) {
  const std::int32_t size = ranks.size(), rank = ranks.rank();
  std::string_view wanted = spec.micro_batches < size ? "a micro-batch for each rank" : "";
  if (spec.policy.reproducible_sum) wanted = reproducible_refusal(spec.micro_batches, size);
  if (!wanted.empty())
    throw InputError("micro_batches",
                     std::to_string(spec.micro_batches) + " on " + std::to_string(size) + " ranks",
                     std::string(wanted));
  share_ = micro_batches_of(spec, size, rank);
  if (is_sharded_)
    for (const Unit& unit : layout.units()) pieces_.push_back(unit.all);
  else
    pieces_.push_back({0, layout.count()});
  const std::int64_t bytes = layout.count() * bytes_of(element_);
  std::size_t slots = share_.count > 1 ? 2 : 1;
  if (spec.policy.reproducible_sum) {
    for (const Range& piece : pieces_)
      trees_.emplace_back(ranks, reducer(spec.policy.gradient), piece.count());
    slots = static_cast<std::size_t>(trees_.front().slot_count());
  }
  for (std::size_t s = 0; s < slots; ++s) {
    slots_.push_back(machine.allocate(bytes));
    if (size > 1) ranks.share(slots_.back(), bytes);
  }
  const Format wire = spec.policy.reduction;
  if (!spec.policy.reproducible_sum && wire != spec.policy.gradient && size > 1)
    wire_ = machine.allocate(layout.count() * bytes_of(element_of(wire)));
  mean_ = is_sharded_ ? machine.allocate(bytes / size) : slots_.front();
}

Reducer GradientSum::reducer(const Format& wire) const {
  Reducer r;
  r.compute = wire == fp64 ? fp64 : fp32;
  r.wire = wire;
  r.reduction = all_reduce::Reduction::mean;
  r.terms = spec_.micro_batches;
  return r;
}

void GradientSum::begin() {
  taken_ = 0;
  for (std::size_t i = 0; i < trees_.size(); ++i) {
    std::vector<void*> slots;
    for (std::byte* slot : slots_) slots.push_back(slot + pieces_[i].begin * bytes_of(element_));
    trees_[i].begin(slots);
  }
}

std::byte* GradientSum::next() const {
  if (!trees_.empty())
    return static_cast<std::byte*>(trees_.front().next()) -
           pieces_.front().begin * bytes_of(element_);
  return taken_ == 0 ? slots_.front() : slots_.back();
}

void GradientSum::take() {
  ++taken_;
  for (MicroBatchSum& tree : trees_) tree.take(machine_.stream());
  if (trees_.empty() && taken_ > 1) {
    const bool is_last = ranks_.size() == 1 && taken_ == share_.count;
    ranks_.add(slots_.front(), slots_.back(), layout_.count(), reducer(spec_.policy.gradient),
               is_last, machine_.stream());
  }
}

void GradientSum::finish() {
  if (trees_.empty()) {
    finish_in_turn();
  } else {
    for (MicroBatchSum& tree : trees_) {
      if (is_sharded_)
        tree.reduce_scatter(machine_.stream());
      else
        tree.all_reduce(machine_.stream());
    }
  }
  if (!is_sharded_) return;
  std::int64_t at = 0;
  for (std::size_t u = 0; u < pieces_.size(); ++u) {
    const Range own = layout_.owned(u, ranks_.rank(), ranks_.size());
    machine_.copy(mean_ + at, slots_.front() + own.begin * bytes_of(element_),
                  own.count() * bytes_of(element_));
    at += own.count() * bytes_of(element_);
  }
}

void GradientSum::finish_in_turn() {
  if (ranks_.size() == 1) return;
  const Format gradient = spec_.policy.gradient, wire = spec_.policy.reduction;
  std::byte* const sum = slots_.front();
  std::byte* const data = wire_ == nullptr ? sum : wire_;
  if (wire_ != nullptr) cast_array(machine_, casts_, sum, gradient, wire_, wire, layout_.count());
  for (const Range& piece : pieces_) {
    std::byte* const there = data + piece.begin * bytes_of(element_of(wire));
    if (is_sharded_)
      ranks_.reduce_scatter(there, piece.count(), reducer(wire), all_reduce::any_order,
                            machine_.stream());
    else
      ranks_.all_reduce(there, piece.count(), reducer(wire), all_reduce::any_order,
                        machine_.stream());
  }
  if (wire_ != nullptr) cast_array(machine_, casts_, wire_, wire, sum, gradient, layout_.count());
}

}  // namespace opbound::train
