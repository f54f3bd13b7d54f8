#include "distributed/train/layout.hpp"

#include <algorithm>

namespace opbound::train {
namespace {

constexpr std::int64_t parameter_alignment = 64;  // elements: 128 bytes of bf16

std::int64_t rounded_up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

std::int64_t count_of(const ParameterSpec& p) {
  std::int64_t count = 1;
  for (const std::int64_t n : p.shape) count *= n;
  return count;
}

}  // namespace

Layout::Layout(std::vector<ParameterSpec> parameters)
    : parameters_(std::move(parameters)), places_(parameters_.size()) {
  int layers = 0;
  for (const ParameterSpec& p : parameters_) layers = std::max(layers, p.layer + 1);
  for (int layer = -1; layer < layers; ++layer) {
    Unit unit{{count_, count_}, {count_, count_}};
    for (const bool decays : {true, false}) {
      for (std::size_t i = 0; i < parameters_.size(); ++i) {
        if (parameters_[i].layer != layer || parameters_[i].decays != decays) continue;
        places_[i] = {count_, count_ + count_of(parameters_[i])};
        count_ += rounded_up(places_[i].count(), parameter_alignment);
      }
      if (decays) unit.decaying.end = count_;
    }
    count_ = unit.all.begin + rounded_up(count_ - unit.all.begin, grain);
    unit.all.end = count_;
    units_.push_back(unit);
  }
}

Range Layout::owned(std::size_t unit, std::int64_t rank, std::int64_t ranks) const {
  const Range& all = units_[unit].all;
  return {all.begin + all.count() * rank / ranks, all.begin + all.count() * (rank + 1) / ranks};
}

}  // namespace opbound::train
