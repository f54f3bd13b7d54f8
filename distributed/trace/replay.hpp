// Inside attribution: the errors of some calls put into the exact run, and what follows from them.
#pragma once

#include <vector>

#include "distributed/trace/exact_tape.hpp"

namespace opbound::trace {

/// The exact run and the one that is explained, value by value.
struct Trajectories {
  const ExactTape& exact;
  const std::vector<AttributeBytes>& attributes;  ///< by call, as it ran
  Values& low;                                    ///< the run's values
  Values& local;                                  ///< what exact calls give of the run's values
  Values& values;                                 ///< the exact run's
};

/// low - local of what a call wrote there, added to `to`, which is of the same value.
void add_error(const Trajectories& t, const train::Ref& r, const TensorView& to);

/// The exact run with errors in it: only what hangs on them is computed again.
class Replay {
 public:
  explicit Replay(const Trajectories& t) : t_(t), changed_(t.exact.no_values()) {}

  /// Adds the error of a value that no call wrote: low - the exact run's.
  void change_input(int value);
  /// Runs the tape with the errors of these calls added to what they put out.
  void run(const std::vector<bool>& with_error);
  /// The value, if it is another one than in the exact run; else the exact run's.
  Tensor& value(int v);
  bool is_changed(int v) const { return changed_[static_cast<std::size_t>(v)].count() > 0; }

 private:
  Trajectories t_;
  Values changed_;
};

}  // namespace opbound::trace
