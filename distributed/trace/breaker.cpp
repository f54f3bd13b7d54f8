#include "distributed/trace/breaker.hpp"

#include "distributed/trace/nearest_checkpoint.hpp"
#include "ops/provider.hpp"

namespace opbound::trace {

std::string text_of(const TraceEvent& e) {
  return "step " + std::to_string(e.step) + ": " + e.check + ": " + e.place + ": " + e.text;
}

Breaker::Breaker(Sentinel& sentinel, Audit* audit, OnAlarm on_alarm, std::filesystem::path folder,
                 Note on_note)
    : sentinel_(sentinel),
      audit_(audit),
      on_alarm_(on_alarm),
      folder_(std::move(folder)),
      on_note_(std::move(on_note)) {}

bool Breaker::judge(train::Trainer& trainer) {
  const std::vector<TraceEvent>& alarms = sentinel_.alarms();
  if (told_ == alarms.size()) return false;
  const TraceEvent first = alarms[told_];
  for (; told_ < alarms.size(); ++told_)
    if (on_note_) on_note_("alarm: " + text_of(alarms[told_]));
  if (on_alarm_ == OnAlarm::note) return false;
  if (on_alarm_ == OnAlarm::stop) throw ProviderFailure("stopped: " + text_of(first));
  go_back(trainer, first);
  return true;
}

void Breaker::go_back(train::Trainer& trainer, const TraceEvent& alarm) {
  // A checkpoint of s steps done holds what step s began with: it is safe where an alarm of step s
  // is of what that step alone was given. Any other may come from what became of the state after
  // the last step's checks and before the checkpoint.
  const bool is_of_step = alarm.check == "seed" || alarm.check == "tokens";
  std::int64_t safe = is_of_step ? alarm.step : alarm.step - 1;
  const bool is_again = alarm.step <= alarmed_by_;
  if (is_again) safe = std::min(safe, went_back_to_ - 1);
  alarmed_by_ = std::max(alarmed_by_, alarm.step);
  if (safe < 0 || !resume_before(trainer, folder_, safe, on_note_))
    throw ProviderFailure("stopped, no " + std::string(is_again ? "older" : "safe") +
                          " checkpoint to go back to: " + text_of(alarm));
  went_back_to_ = trainer.steps_done();
  sentinel_.accept_state();
  if (audit_ != nullptr) {
    audit_->accept_state();
    audit_->audit_next_step();
  }
  if (on_note_)
    on_note_("back to the checkpoint after " + std::to_string(went_back_to_) + " steps");
}

}  // namespace opbound::trace
