// Planted faults of recompute: what goes wrong when a block is run again.
#pragma once

#include "ops/recompute.hpp"
#include "tests/faults/fault.hpp"

namespace opbound::faults {
namespace recompute_faults {

using Inputs = std::vector<std::pair<std::string_view, std::string_view>>;

/// The right backward pass, from a kept input that f(x, i) changes, i its place.
template <class F>
std::function<void(const Op&, const Call&)> from_other(F f) {
  return [f](const Op& op, const Call& call) {
    Call forward = call;
    forward.direction = Direction::forward;
    forward.backward.clear();
    op.run(forward);
    const TensorView kept = call.forward[opbound::recompute::forward::kept];
    Tensor changed(kept.element, {call.sizes[0], call.sizes[1]});
    for (std::int64_t i = 0; i < kept.count(); ++i)
      changed.view().set(i, round_to(format_of(kept.element), f(kept, i)));
    Call backward = call;
    backward.direction = Direction::backward_local;
    backward.forward.clear();
    backward.backward[opbound::recompute::backward::kept] = changed.view();
    op.run(backward);
  };
}

}  // namespace recompute_faults

inline std::vector<Fault> recompute() {
  using namespace recompute_faults;
  using Kernel = opbound::gelu::backward::elements;
  constexpr auto full = Direction::backward_full, local = Direction::backward_local;
  const Inputs all{{"x", "normal(sigma=2)"}, {"gain", "normal(mean=1)"}, {"dy", "normal"}};
  const std::vector<std::pair<std::string_view, AttributeValue>> in_fp32{
      {"stored_format", std::string("fp32")}};
  const std::vector<std::int64_t> shape{32, 8};
  return {
      {"recompute", "kept_in_bf16", "x kept in bf16 where fp32 is declared", full, "fp32", shape,
       all, in_fp32,
       from_other([](const TensorView& x, std::int64_t i) { return round_to(bf16, x.at(i)); })},
      {"recompute",
       "kept_truncated",
       "x truncated where it is rounded to nearest to be kept",
       full,
       "fp32",
       shape,
       all,
       {},
       [](const Op& op, const Call& call) {
         const TensorView x = call.forward[opbound::recompute::forward::x];
         from_other([x](const TensorView&, std::int64_t i) { return truncate_to(bf16, x.at(i)); })(
             op, call);
       }},
      {"recompute",
       "output_for_input",
       "the block run again from its output",
       full,
       "bf16:fp32:bf16",
       shape,
       all,
       {},
       [](const Op& op, const Call& call) {
         const TensorView y = call.forward[opbound::recompute::forward::y];
         from_other([y](const TensorView&, std::int64_t i) { return y.at(i); })(op, call);
       }},
      {"recompute",
       "stale_input",
       "the input of another micro-batch: rows shifted by one",
       full,
       "bf16:fp32:bf16",
       shape,
       all,
       {},
       from_other([](const TensorView& x, std::int64_t i) { return x.at((i + 8) % x.count()); })},
      {"recompute",
       "other_algorithm",
       "run again with 1 + erf where erfc ran first",
       local,
       "fp32",
       shape,
       {{"x", "uniform(low=-5, high=-3)"}, {"gain", "normal"}, {"dy", "normal"}},
       in_fp32,
       with_call([](Call& c) { c.variant = opbound::recompute::one_plus_erf; })},
      {"recompute",
       "tanh_form",
       "run again as the tanh approximation",
       local,
       "bf16:fp32:bf16",
       shape,
       all,
       {},
       [](const Op& op, const Call& call) {
         op.run(call);
         const auto& v = call.backward;
         for (std::int64_t i = 0; i < v[3].count(); ++i) {
           const auto x = static_cast<float>(v[0].at(i)), dy = static_cast<float>(v[2].at(i));
           const auto gain = static_cast<float>(v[1].at(i % call.sizes[1]));
           v[3].set(i, round_to(format_of(v[3].element),
                                dy * gain * Kernel::derivative<float>(opbound::gelu::sigmoid, x)));
         }
       }},
      {"recompute",
       "gain_forgotten",
       "dx = dy gelu'(x)",
       local,
       "fp32",
       shape,
       all,
       {},
       [](const Op& op, const Call& call) {
         op.run(call);
         const auto& v = call.backward;
         for (std::int64_t i = 0; i < v[3].count(); ++i)
           v[3].set(i, static_cast<float>(v[2].at(i)) *
                           Kernel::derivative<float>(opbound::gelu::erfc_form,
                                                     static_cast<float>(v[0].at(i))));
       }},
      {"recompute",
       "gain_gradient_of_one_row",
       "dgain of the last row, not of the sum",
       local,
       "fp32",
       shape,
       all,
       {},
       [](const Op& op, const Call& call) {
         op.run(call);
         const auto& v = call.backward;
         for (std::int64_t c = 0; c < v[4].count(); ++c) {
           const std::int64_t at = v[0].count() - v[4].count() + c;
           v[4].set(c, static_cast<float>(v[2].at(at)) *
                           opbound::gelu::forward::elements::value<float>(
                               opbound::gelu::erfc_form, static_cast<float>(v[0].at(at))));
         }
       }},
  };
}

}  // namespace opbound::faults
