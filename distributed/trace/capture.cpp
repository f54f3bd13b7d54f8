#include "distributed/trace/capture.hpp"

#include <bit>
#include <utility>

#include "reports/error.hpp"

namespace opbound::trace {
namespace {

using train::Life;
using train::Ref;
using train::Step;

std::span<const TensorView> views_of(const Call& call) {
  return call.direction == Direction::forward ? call.forward : call.backward;
}

std::span<const TensorSpec> specs_of(const Step& step) {
  return step.spec.op->pass(step.spec.direction).tensors;
}

bool is_same(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b) || (a != a && b != b);
}

}  // namespace

void Capture::begin(const train::RunView& run) {
  if (run.ranks.size() != 1)
    throw InputError("attribute", std::to_string(run.ranks.size()) + " ranks",
                     "one: it runs the whole step by itself");
  run_.emplace(run);
  exact_ = std::make_unique<ExactTape>(run.tape, run.refs.loss.value);
}

bool Capture::sees_calls(std::int64_t step, std::int64_t micro_batch) {
  if (micro_batch < 0 || !wanted_(step, micro_batch)) return false;
  captured_.emplace();
  captured_->step = step;
  captured_->micro_batch = micro_batch;
  captured_->values = exact_->no_values();
  captured_->attributes.resize(exact_->calls());
  captured_->master = read_parameters(run_->arrays.master, run_->spec.policy.master);
  return true;
}

/// The elements of a view of the machine's memory, contiguous, floating-point ones as fp64.
Tensor Capture::read(const TensorView& view) {
  const std::int64_t bytes = view.extent() * bytes_of(view.element);
  bytes_.resize(static_cast<std::size_t>(bytes));
  run_->machine.read(bytes_.data(), view.data, bytes);
  TensorView here = view;
  here.data = bytes_.data();
  Shape shape(here.size, here.size + here.rank);
  Tensor t(is_float(view.element) ? Element::fp64 : view.element, std::move(shape));
  copy_to(t.view(), here);
  return t;
}

/// All parameters out of a flat array, as fp64.
std::vector<Tensor> Capture::read_parameters(std::byte* array, const Format& format) {
  std::int64_t count = 0;
  for (const train::Range& r : run_->owned) count += r.count();
  Tensor own = read(contiguous_view(element_of(format), {count}, array));
  Tensor flat(Element::fp64, {run_->layout.count()});
  std::int64_t at = 0;
  for (const train::Range& r : run_->owned)
    for (std::int64_t i = r.begin; i < r.end; ++i) flat.set(i, own.at(at++));
  std::vector<Tensor> all;
  for (std::size_t p = 0; p < run_->layout.parameters().size(); ++p) {
    all.emplace_back(Element::fp64, run_->layout.parameters()[p].shape);
    const std::int64_t first = run_->layout.parameter(p).begin;
    for (std::int64_t i = 0; i < all.back().count(); ++i) all.back().set(i, flat.at(first + i));
  }
  return all;
}

void Capture::take_input(std::size_t index, const Step& step, const Ref& r,
                         const TensorView& there) {
  Tensor& value = captured_->values[static_cast<std::size_t>(r.value)];
  Tensor now = read(there);
  if (value.count() == 0) {
    const Life life = run_->tape.value_of(r).life;
    value = exact_->zeros(r.value);
    detail::require(life != Life::temporary && now.count() == value.count(),
                    "what no call wrote is an input, read whole");
    copy_to(view_of(value, r), now.view());
    return;
  }
  const TensorView kept = view_of(value, r);
  std::int64_t changed = 0;
  for (std::int64_t i = 0; i < now.count(); ++i) changed += is_same(kept.at(i), now.at(i)) ? 0 : 1;
  if (changed > 0 && captured_->changed == 0)
    captured_->first_changed = "call " + std::to_string(index) + ", " + step.part +
                               (step.layer < 0 ? "" : " of layer " + std::to_string(step.layer));
  captured_->changed += changed;
}

void Capture::before_call(const train::CallPlace& place, const Step& step, const Call& call) {
  if (place.phase != train::Phase::model || !captured_) return;
  captured_->attributes[place.index] = call.attributes;
  for (std::size_t t = 0; t < step.tensors.size(); ++t)
    if (step.tensors[t].exists() && !specs_of(step)[t].is_written())
      take_input(place.index, step, step.tensors[t], views_of(call)[t]);
}

void Capture::after_call(const train::CallPlace& place, const Step& step, const Call& call) {
  if (place.phase != train::Phase::model || !captured_) return;
  for (std::size_t t = 0; t < step.tensors.size(); ++t) {
    const Ref& r = step.tensors[t];
    if (!r.exists() || !specs_of(step)[t].is_written()) continue;
    Tensor& value = captured_->values[static_cast<std::size_t>(r.value)];
    if (value.count() == 0) value = exact_->zeros(r.value);
    Tensor now = read(views_of(call)[t]);
    copy_to(view_of(value, r), now.view());
  }
}

void Capture::gradient(std::int64_t, std::int64_t, std::byte*) {
  if (!captured_) return;
  use_(*captured_);
  captured_.reset();
  has_captured_ = true;
}

void Capture::reduced(std::int64_t step) {
  if (std::exchange(has_captured_, false) && use_mean_)
    use_mean_(step, read_parameters(run_->arrays.gradient, run_->spec.policy.gradient));
}

}  // namespace opbound::trace
