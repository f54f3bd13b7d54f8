#include "suites/run_cases.hpp"

#include <algorithm>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <system_error>
#include <thread>

#include "ops/out_of_memory.hpp"

namespace opbound {
namespace {

/// Many together, or one alone, which those that come after it let pass.
class Room {
 public:
  template <class F>
  auto together(F action) {
    std::unique_lock turn(entry_);
    const std::shared_lock inside(room_);
    turn.unlock();
    return action();
  }
  template <class F>
  auto alone(F action) {
    const std::lock_guard turn(entry_);
    const std::lock_guard inside(room_);
    return action();
  }

 private:
  std::mutex entry_;
  std::shared_mutex room_;
};

class Run {
 public:
  Run(std::span<const CaseSpec> cases, const Provider& provider, const RunOptions& options,
      const RunEvents& events)
      : cases_(cases),
        provider_(provider),
        options_(options),
        events_(events),
        threads_(std::min(provider.is_foreign() ? 1 : static_cast<std::size_t>(options.workers),
                          cases.size())) {}

  /// Throws the first exception again.
  void run() {
    std::vector<std::thread> others;
    others.reserve(threads_);
    try {
      for (std::size_t t = 1; t < threads_; ++t) others.emplace_back([this] { work(); });
    } catch (const std::system_error&) {  // the system has no more: those that are there do it
    }
    work();
    for (std::thread& thread : others) thread.join();
    if (error_) std::rethrow_exception(error_);
  }

 private:
  struct Outcome {
    std::vector<Record> records;
    std::exception_ptr error;
  };

  /// What each thread does.
  void work() {
    while (const std::optional<std::size_t> place = next()) {
      Outcome outcome;
      try {
        outcome.records = records_of(cases_[*place]);
      } catch (...) {
        outcome.error = std::current_exception();
      }
      end(*place, std::move(outcome));
    }
  }

  std::vector<Record> records_of(const CaseSpec& spec) {
    const auto run_alone = [&] {
      return run_case(spec, provider_, options_.agreement, options_.most_probes);
    };
    if (threads_ == 1) return run_alone();
    try {
      return room_.together([&] {
        return run_case_or_throw(spec, provider_, options_.agreement, options_.most_probes);
      });
    } catch (const OutOfMemory&) {
      return room_.alone(run_alone);
    }
  }

  /// The case that begins now, if one does.
  std::optional<std::size_t> next() {
    const std::lock_guard lock(mutex_);
    if (is_over_ || next_ == cases_.size()) return std::nullopt;
    is_over_ = !events_.begins(next_);
    if (is_over_) return std::nullopt;
    return next_++;
  }

  /// Keeps what came of a case until all before it have ended.
  void end(std::size_t place, Outcome outcome) {
    const std::lock_guard lock(mutex_);
    waiting_.emplace(place, std::move(outcome));
    while (!error_ && !waiting_.empty() && waiting_.begin()->first == ended_) {
      Outcome first = std::move(waiting_.extract(waiting_.begin()).mapped());
      error_ = first.error;
      if (!error_) tell(ended_++, std::move(first.records));
    }
    is_over_ = is_over_ || error_;
  }

  void tell(std::size_t place, std::vector<Record> records) {
    try {
      events_.ended(place, std::move(records));
    } catch (...) {
      error_ = std::current_exception();
    }
  }

  std::span<const CaseSpec> cases_;
  const Provider& provider_;
  const RunOptions& options_;
  const RunEvents& events_;
  std::size_t threads_;
  Room room_;

  std::mutex mutex_;  ///< of what follows
  std::size_t next_ = 0, ended_ = 0;
  bool is_over_ = false;
  std::map<std::size_t, Outcome> waiting_;
  std::exception_ptr error_;
};

}  // namespace

void run_cases(std::span<const CaseSpec> cases, const Provider& provider, const RunOptions& options,
               const RunEvents& events) {
  Run(cases, provider, options, events).run();
}

}  // namespace opbound
