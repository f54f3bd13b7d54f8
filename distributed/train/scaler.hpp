// The loss scale of a run, step by step: the op `loss_scaler`, asked for one step at a time.
#pragma once

#include <cstdint>

#include "distributed/train/policy.hpp"

namespace opbound::train {

class LossScaler {
 public:
  explicit LossScaler(const Policy& policy);

  double scale() const { return scale_; }
  /// Steps without an overflow since the scale changed.
  std::int64_t tracker() const { return tracker_; }
  /// Goes on from there.
  void restore(double scale, std::int64_t tracker);
  /// Of a step whose gradients were finite or not.
  void update(bool found_inf);

 private:
  LossScale mode_;
  double growth_factor_, backoff_factor_;
  std::int64_t growth_interval_;
  double scale_ = 1;
  std::int64_t tracker_ = 0;
};

}  // namespace opbound::train
