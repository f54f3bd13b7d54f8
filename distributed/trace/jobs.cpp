#include "distributed/trace/jobs.hpp"

#include <algorithm>
#include <exception>
#include <mutex>
#include <optional>
#include <vector>

#include "ops/parallel.hpp"

namespace opbound::trace {
namespace {

class Jobs {
 public:
  Jobs(std::span<const Job> jobs, const std::function<bool()>& should_stop)
      : jobs_(jobs), should_stop_(should_stop), outcomes_(jobs.size()) {}

  void run(int workers) {
    const std::int64_t threads = std::min<std::int64_t>(std::max(1, workers), std::ssize(jobs_));
    on_threads(threads, [&](std::size_t) {
      std::optional<OneThread> one;
      if (threads > 1) one.emplace();
      while (const std::optional<std::size_t> place = next()) end(*place, error_of(*place));
    });
    if (error_) std::rethrow_exception(error_);
  }

 private:
  struct Outcome {
    bool has_ended = false;
    std::exception_ptr error;
  };

  bool must_stop() const { return should_stop_ && should_stop_(); }

  std::optional<std::size_t> next() {
    const std::lock_guard lock(mutex_);
    if (is_over_ || next_ == jobs_.size() || must_stop()) return std::nullopt;
    return next_++;
  }

  std::exception_ptr error_of(std::size_t place) const {
    try {
      jobs_[place].run();
    } catch (...) {
      return std::current_exception();
    }
    return nullptr;
  }

  /// Those before this one have begun, so that they end and are told; none after it has to begin
  /// where it failed.
  void end(std::size_t place, std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    is_over_ = is_over_ || error;
    outcomes_[place] = {true, std::move(error)};
    for (; !error_ && told_ < jobs_.size() && outcomes_[told_].has_ended; ++told_) {
      error_ = outcomes_[told_].error;
      if (!error_) tell(jobs_[told_]);
    }
  }

  /// A job that ends after the word to stop may be half done.
  void tell(const Job& job) {
    if (must_stop() || !job.tell) return;
    try {
      job.tell();
    } catch (...) {
      error_ = std::current_exception();
      is_over_ = true;
    }
  }

  std::span<const Job> jobs_;
  const std::function<bool()>& should_stop_;

  std::mutex mutex_;  ///< of what follows
  std::size_t next_ = 0, told_ = 0;
  bool is_over_ = false;
  std::vector<Outcome> outcomes_;
  std::exception_ptr error_;
};

}  // namespace

void run_jobs(std::span<const Job> jobs, int workers, const std::function<bool()>& should_stop) {
  if (!jobs.empty()) Jobs(jobs, should_stop).run(workers);
}

}  // namespace opbound::trace
