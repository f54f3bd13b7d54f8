#include "distributed/trace/replay.hpp"

namespace opbound::trace {
namespace {

using train::Ref;

std::span<const TensorSpec> specs_of(const train::Step& step) {
  return step.spec.op->pass(step.spec.direction).tensors;
}

Tensor& at(Values& values, int v) { return values[static_cast<std::size_t>(v)]; }

}  // namespace

void add_error(const Trajectories& t, const Ref& r, const TensorView& to) {
  const TensorView low = view_of(at(t.low, r.value), r), exact = view_of(at(t.local, r.value), r);
  for (std::int64_t i = 0, n = to.count(); i < n; ++i)
    to.set(i, to.at(i) + (low.at(i) - exact.at(i)));
}

Tensor& Replay::value(int v) { return is_changed(v) ? at(changed_, v) : at(t_.values, v); }

void Replay::change_input(int v) {
  Tensor& to = at(changed_, v) = at(t_.low, v);
  detail::require(is_float(to.element()), "an input with an error is a number");
}

void Replay::run(const std::vector<bool>& with_error) {
  for (std::size_t i = 0; i < t_.exact.calls(); ++i) {
    const train::Step& step = t_.exact.tape().steps()[i];
    const auto specs = specs_of(step);
    bool is_affected = with_error[i];
    for (std::size_t t = 0; t < specs.size(); ++t)
      if (step.tensors[t].exists() && !specs[t].is_written())
        is_affected = is_affected || is_changed(step.tensors[t].value);
    if (!is_affected) continue;
    // A value that is written in parts keeps the exact run's other parts.
    for (std::size_t t = 0; t < specs.size(); ++t)
      if (const int v = step.tensors[t].value; step.tensors[t].exists() && specs[t].is_written())
        if (!is_changed(v)) at(changed_, v) = at(t_.values, v);
    t_.exact.run(i, t_.attributes[i], [&](int v, bool) -> Tensor& { return value(v); });
    if (!with_error[i]) continue;
    for (std::size_t t = 0; t < specs.size(); ++t) {
      const Ref& r = step.tensors[t];
      if (r.exists() && specs[t].is_judged() && is_float(at(changed_, r.value).element()))
        add_error(t_, r, view_of(at(changed_, r.value), r));
    }
  }
}

}  // namespace opbound::trace
