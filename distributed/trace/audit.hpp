// The audit of a run while it trains: on chosen steps every call of this rank is judged like a case
// of a suite, on the tensors that it had, and what ties calls and steps together is checked.
//
// An observer that only looks: a run has the same bits with it and without. Every rank has its own,
// which judges that rank's calls by a sample of its own. All ranks have to audit the same steps.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "distributed/trace/call_judge.hpp"
#include "distributed/trace/finding.hpp"
#include "distributed/train/observer.hpp"
#include "reports/record.hpp"

namespace opbound::trace {

struct AuditOptions {
  std::int64_t every = 0;           ///< steps 0, every, 2 every, ...; 0: none of its own accord
  std::vector<std::int64_t> steps;  ///< and these
  Share share;
  std::uint64_t seed = 1;  ///< of samples and signs, beside step, rank, micro-batch and call
  train::MakeProvider make_provider;  ///< of what a policy names beside "own", for its contract
  std::function<void(const Record&)> on_record;  ///< in the order of the calls
};

/// What an audit did on this rank so far. Times are for people; nothing hangs on them.
struct AuditSummary {
  std::int64_t steps = 0, calls = 0, records = 0;
  std::uint64_t elements = 0;           ///< judged by their bounds
  std::uint64_t findings = 0;           ///< of all ranks
  std::int64_t other_steps = 0;         ///< that were not audited
  double audited_ms = 0, other_ms = 0;  ///< from a step's beginning to its update's end

  /// How many times longer an audited step took; 0 where there is no step to compare with.
  double times_longer() const;
};

class Audit final : public train::Observer {
 public:
  /// What is not in memory: findings beyond so many are counted only.
  static constexpr std::size_t most_findings = 1000;

  explicit Audit(AuditOptions options);
  ~Audit() override;
  Audit(const Audit&) = delete;
  Audit& operator=(const Audit&) = delete;

  /// The step that begins next is audited too. Every rank says so.
  void audit_next_step();
  /// The state was changed on purpose since the last step, as by going back to a checkpoint: it is
  /// taken as it is.
  void accept_state();

  /// Of all ranks, as far as steps are done: rank after rank for each step, in the order in which
  /// they were found.
  std::vector<Finding> findings() const;
  AuditSummary summary() const;

  void begin(const train::RunView& run) override;
  void begin_step(std::int64_t step) override;
  void sample(std::int64_t step, std::int64_t micro_batch, train::Sample& sample) override;
  bool sees_calls(std::int64_t step, std::int64_t micro_batch) override;
  void before_call(const train::CallPlace& place, const train::Step& step,
                   const Call& call) override;
  void after_call(const train::CallPlace& place, const train::Step& step,
                  const Call& call) override;
  void gradient(std::int64_t step, std::int64_t micro_batch, std::byte* flat) override;
  void reduced(std::int64_t step) override;
  void normed(std::int64_t step, std::byte* norms, std::int64_t count, Element element) override;
  void updated(const train::StepResult& result) override;

 private:
  struct Run;

  bool is_chosen(std::int64_t step) const;
  void report(Finding finding);
  void share_findings();

  AuditOptions options_;
  std::unique_ptr<Run> run_;
  std::vector<Finding> own_;       ///< of this rank, of the step that runs
  std::vector<Finding> findings_;  ///< of all ranks, of steps that are done
  AuditSummary summary_;
  bool next_is_asked_ = false;
};

/// "step 3, rank 0, micro-batch 2, layer 1, mlp:gelu backward_local: dx: element 5 is ..." in one
/// line.
std::string text_of(const Finding& finding);

/// One line of JSON, and the finding of it; numbers are exact. Throws InputError for anything else.
std::string to_json(const Finding& finding);
Finding finding_of(const std::string& json);

}  // namespace opbound::trace
