#include "distributed/train/scaler.hpp"

#include "ops/set_attribute.hpp"

namespace opbound::train {

LossScaler::LossScaler(const Policy& policy)
    : mode_(policy.loss_scale),
      growth_factor_(policy.growth_factor),
      backoff_factor_(policy.backoff_factor),
      growth_interval_(policy.growth_interval),
      scale_(policy.loss_scale == LossScale::none ? 1 : policy.initial_scale) {}

void LossScaler::restore(double scale, std::int64_t tracker) {
  scale_ = scale;
  tracker_ = tracker;
}

// The op has no tracker among its inputs: it counts from 0. So it is told one step with an interval
// that is shorter by what was counted already, and the count is carried here.
void LossScaler::update(bool found_inf) {
  if (mode_ != LossScale::dynamic) return;
  const Op& op = *find_op("loss_scaler");
  Call call;
  call.attributes = op.default_attributes;
  set_attribute(op, call.attributes, "init_scale", scale_);
  set_attribute(op, call.attributes, "growth_factor", growth_factor_);
  set_attribute(op, call.attributes, "backoff_factor", backoff_factor_);
  set_attribute(op, call.attributes, "growth_interval", growth_interval_ - tracker_);
  call.sizes[0] = 1;
  Tensor found(Element::boolean, {1}), scale(fp32, {1}), tracker(Element::int64, {1});
  found.set(0, found_inf ? 1 : 0);
  call.forward = {found.view(), scale.view(), tracker.view()};
  op.run(call);
  scale_ = scale.at(0);
  // The tracker is 0 where the scale changed or could not: else one more.
  tracker_ = tracker.index_at(0) == 0 ? 0 : tracker_ + 1;
}

}  // namespace opbound::train
