#include "distributed/train/call_times.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "distributed/train/trainer.hpp"
#include "reports/table.hpp"

namespace opbound::train {
namespace {

/// "mlp:gelu" is an op's name with where it stands; the update's parts are ops' names.
std::string part_of(const Step& step) {
  const std::string op(step.spec.op->name);
  return step.part == op || step.part.ends_with(":" + op) ? step.part : step.part + " (" + op + ")";
}

}  // namespace

void CallTimes::before_call(const CallPlace&, const Step&, const Call&) {
  begin_ = machine_->mark();
}

void CallTimes::after_call(const CallPlace&, const Step& step, const Call&) {
  const std::string direction = step.spec.direction == Direction::forward ? "forward" : "backward";
  timed_.push_back({{part_of(step), direction, step.provider.empty() ? "own" : step.provider},
                    begin_,
                    machine_->mark()});
}

void CallTimes::updated(const StepResult& result) {
  if (result.step != step_) return;
  sums_.clear();
  for (const Timed& t : timed_) {
    Sum& sum = sums_[t.kind];
    ++sum.calls;
    sum.time_ms += machine_->ms_between(t.begin, t.end);
  }
  timed_.clear();
}

std::string CallTimes::table(const Terminal& terminal) const {
  if (sums_.empty()) return {};
  double all = 0;
  for (const auto& [kind, sum] : sums_) all += sum.time_ms;
  std::vector<std::pair<Kind, Sum>> rows(sums_.begin(), sums_.end());
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.second.time_ms > b.second.time_ms;
  });
  Table table({{.title = "op"},
               {.title = "direction"},
               {.title = "provider"},
               {.title = "calls", .number = true},
               {.title = "time_ms", .number = true},
               {.title = "share", .number = true}});
  for (const auto& [kind, sum] : rows)
    table.add_row({{kind.part},
                   {kind.direction},
                   {kind.provider},
                   {std::to_string(sum.calls)},
                   {fmt::format("{:.3f}", sum.time_ms)},
                   {fmt::format("{:.1f}%", all == 0 ? 0 : 100 * sum.time_ms / all)}});
  table.add_rule();
  table.add_row({{"all calls"}, {""}, {""}, {""}, {fmt::format("{:.3f}", all)}, {"100.0%"}});
  return table.terminal(terminal);
}

}  // namespace opbound::train
