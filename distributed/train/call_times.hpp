// Where a step's time goes: how long the calls of each op took, on the machine itself.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "distributed/train/observer.hpp"
#include "reports/table.hpp"

namespace opbound::train {

/// Times the calls of one step. What the step does beside calls (the loader, collectives, copies of
/// weights in another format) is what is left of its whole time.
class CallTimes final : public Observer {
 public:
  explicit CallTimes(std::int64_t step) : step_(step) {}

  void begin(const RunView& run) override { machine_ = &run.machine; }
  bool sees_calls(std::int64_t step, std::int64_t) override { return step == step_; }
  void before_call(const CallPlace& place, const Step& step, const Call& call) override;
  void after_call(const CallPlace& place, const Step& step, const Call& call) override;
  void updated(const StepResult& result) override;

  /// A row for each op, direction, part and provider, the longest first; empty if the step was not
  /// done.
  std::string table(const Terminal& terminal) const;

 private:
  struct Kind {
    std::string part, direction, provider;
    bool operator<(const Kind& other) const {
      return std::tie(part, direction, provider) <
             std::tie(other.part, other.direction, other.provider);
    }
  };
  struct Timed {
    Kind kind;
    std::size_t begin, end;  ///< marks of the machine
  };
  struct Sum {
    std::int64_t calls = 0;
    double time_ms = 0;
  };

  std::int64_t step_;
  Machine* machine_ = nullptr;
  std::size_t begin_ = 0;
  std::vector<Timed> timed_;
  std::map<Kind, Sum> sums_;
};

}  // namespace opbound::train
