// opbound train: what looks on, as its options say.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "distributed/trace/breaker.hpp"
#include "distributed/trace/sentinel.hpp"
#include "distributed/trace/tracer.hpp"
#include "distributed/trace/twin.hpp"
#include "distributed/train/call_times.hpp"
#include "distributed/train/trainer.hpp"

namespace opbound {

struct ObserveOptions {
  std::string trace, against, on_alarm = "note";
  std::int64_t full_every = 100, prompts_every = 0, twin = 0;
  std::optional<std::int64_t> times;
  std::vector<std::int64_t> bits_of;
  std::vector<std::string> twins;
  double alpha = 1e-3;
  bool has_sentinel = false, watches_norms = false;

  bool watches() const { return has_sentinel || !against.empty(); }
};

void add_observe_options(CLI::App& command, ObserveOptions& options);

/// The observers that a run is to have beside an audit; they live as long as this.
class Observers {
 public:
  /// Throws InputError for a reference that cannot be read, and where an alarm shall go back to
  /// checkpoints and the run writes none. `audit` may be null.
  /// `on_note` is told what is suspicious in the settings.
  using Note = std::function<void(const std::string&)>;
  Observers(const ObserveOptions& options, const std::string& device, trace::Audit* audit,
            const Note& on_note);

  /// Adds them to a run, the audit among them. `on_note` is told of alarms.
  void attach(train::TrainOptions& how);
  /// Tells what the sentinel watched, but for `is_quiet`; gives the exit code of a run that would
  /// have ended with `code`.
  int end(int code, bool is_quiet) const;

 private:
  const ObserveOptions& options_;
  std::string device_;
  trace::Audit* audit_;
  std::optional<train::CallTimes> times_;
  std::optional<trace::Twin> twin_;
  std::optional<trace::Tracer> tracer_;
  std::optional<trace::Sentinel> sentinel_;
  std::optional<trace::Breaker> breaker_;
};

}  // namespace opbound
