// The breaker of a run: what becomes of it when the sentinel raises an alarm.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "distributed/trace/sentinel.hpp"
#include "distributed/train/trainer.hpp"

namespace opbound::trace {

/// roll_back: the last checkpoint from before the alarm, and on from there, every call of the first
/// step audited. An alarm that comes again by the same step is no passing one: the checkpoint
/// before that, and where there is none left the run stops.
enum class OnAlarm : std::uint8_t { note, stop, roll_back };
inline constexpr std::array<std::string_view, 3> on_alarm_names{"note", "stop", "roll-back"};

class Breaker {
 public:
  using Note = std::function<void(const std::string&)>;

  /// `audit` may be null; all of them outlive the breaker.
  Breaker(Sentinel& sentinel, Audit* audit, OnAlarm on_alarm, std::filesystem::path folder,
          Note on_note);

  /// After each step, on every rank: whether the trainer went back. Throws ProviderFailure, which
  /// names the suspect, where the run has to stop.
  bool judge(train::Trainer& trainer);

 private:
  void go_back(train::Trainer& trainer, const TraceEvent& alarm);

  Sentinel& sentinel_;
  Audit* audit_;
  OnAlarm on_alarm_;
  std::filesystem::path folder_;
  Note on_note_;
  std::size_t told_ = 0;            ///< of the sentinel's alarms
  std::int64_t alarmed_by_ = -1;    ///< the latest step with an alarm so far
  std::int64_t went_back_to_ = -1;  ///< steps done in the checkpoint that was taken last
};

/// "step 30: not finite: h.1.mlp.c_fc.weight, rank 0, micro-batch 3: element 5 of its gradient".
std::string text_of(const TraceEvent& event);

}  // namespace opbound::trace
