// An observer that plants a fault in a training run: told before what shall find it.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "distributed/train/observer.hpp"

namespace opbound {

/// Each hook is called where it is given; `run` lasts from `begin` on.
class PlantedObserver final : public train::Observer {
 public:
  using AtCall = std::function<void(const train::CallPlace&, const train::Step&, const Call&)>;

  AtCall before, after;
  std::function<void(const train::CallPlace&, const train::Step&, Call&)> alter;
  std::function<void(std::int64_t step)> at_step, at_reduced;
  std::function<void(std::int64_t, std::int64_t, train::Sample&)> at_sample;
  std::function<void(std::int64_t, std::int64_t, std::byte*)> at_gradient;
  std::function<void(std::int64_t, std::byte*, std::int64_t, Element)> at_norms;
  std::function<void(const train::StepResult&)> at_end;
  std::optional<train::RunView> run;

  void begin(const train::RunView& view) override { run.emplace(view); }
  void begin_step(std::int64_t step) override {
    if (at_step) at_step(step);
  }
  void sample(std::int64_t step, std::int64_t micro_batch, train::Sample& sample) override {
    if (at_sample) at_sample(step, micro_batch, sample);
  }
  bool sees_calls(std::int64_t, std::int64_t) override { return before || after || alter; }
  void before_call(const train::CallPlace& place, const train::Step& step,
                   const Call& call) override {
    if (before) before(place, step, call);
  }
  void alter_call(const train::CallPlace& place, const train::Step& step, Call& call) override {
    if (alter) alter(place, step, call);
  }
  void after_call(const train::CallPlace& place, const train::Step& step,
                  const Call& call) override {
    if (after) after(place, step, call);
  }
  void gradient(std::int64_t step, std::int64_t micro_batch, std::byte* flat) override {
    if (at_gradient) at_gradient(step, micro_batch, flat);
  }
  void reduced(std::int64_t step) override {
    if (at_reduced) at_reduced(step);
  }
  void normed(std::int64_t step, std::byte* norms, std::int64_t count, Element element) override {
    if (at_norms) at_norms(step, norms, count, element);
  }
  void updated(const train::StepResult& result) override {
    if (at_end) at_end(result);
  }
};

}  // namespace opbound
