// Makes a run's trace while it trains: fingerprints of every step's gradient, and at some steps
// what costs more. The same numbers whatever the number of ranks and the sharding.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "distributed/trace/trace.hpp"
#include "distributed/train/observer.hpp"
#include "distributed/train/prompts.hpp"

namespace opbound::trace {

struct TracerOptions {
  std::filesystem::path file;  ///< empty: nothing is written, `last` is what one wants
  bool goes_on = false;        ///< the run was resumed: later steps that the file has are dropped
  std::int64_t full_every = 100;  ///< steps from one full fingerprint to the next; 0: none
  std::set<std::int64_t>
      bits_of;  ///< steps of whose calls the bits are kept; those of full_every too
  /// Asked after each so many steps, on rank 0's `device`; 0: never.
  std::int64_t prompts_every = 0;
  std::vector<train::Prompt> prompts;
  std::string device = "cpu";
  TraceHead head;  ///< what the run itself does not know: source, environment
};

/// Gradients of a step in pieces that are summed in one order: a parameter's part of a chunk of its
/// unit. A rank has the pieces that it owns.
struct Piece {
  std::size_t parameter = 0;
  train::Range range;  ///< of the flat array
};
std::vector<Piece> pieces_of(const train::Layout& layout);

/// The head of a run's trace: what it knows itself, beside `known`.
TraceHead head_of(TraceHead known, const train::RunView& run);

class Tracer final : public train::Observer {
 public:
  explicit Tracer(TracerOptions options);
  /// The run was resumed: a trace that is there is gone on with, from where the run begins.
  void go_on(bool resumes);
  ~Tracer() override;
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

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
  void updated(const train::StepResult& result) override;
  void settle() override;

  /// The step that was finished last, on every rank.
  const TraceStep& last() const;
  const std::vector<TraceParameter>& parameters() const;
  /// Of the run that began.
  TraceHead head() const;
  /// Rank 0 keeps it in the file.
  void note(const TraceEvent& event);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace opbound::trace
