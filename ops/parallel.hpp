// Independent blocks over the machine's cores. Results do not depend on how many there are.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

namespace opbound {

/// Threads of every job, however small; 0: as many as it deserves. For tests, while nothing runs.
inline std::atomic<std::int64_t> forced_threads{0};

/// While one lives, this thread's jobs stay on it: it is one of several that share the cores.
class OneThread {
 public:
  OneThread() : before_(std::exchange(holds_, true)) {}
  ~OneThread() { holds_ = before_; }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

  static bool holds() { return holds_; }

 private:
  static inline thread_local bool holds_ = false;
  bool before_;
};

/// Calls work(turn), turn in [0, turns), each on a thread of its own, the first on this one, and
/// returns when all that have begun are done. Threads are kept for the next job. A turn that has
/// not begun when this thread's is done never begins: turns have to take what is left to do from a
/// common place. `work` throws nothing.
void on_threads(std::int64_t turns, const std::function<void(std::size_t)>& work);

/// Calls action(i) for every i in [0, count), each once, in any order and on any thread; `work` is
/// about how many elements one call handles, so that small jobs stay on this thread. The first
/// exception is thrown again when all threads are done.
template <class F>
void parallel_for(std::int64_t count, std::int64_t work, F action) {
  constexpr std::int64_t worth_a_thread = 16384;  // elements
  static const auto cores =
      static_cast<std::int64_t>(std::max(1U, std::thread::hardware_concurrency()));
  const std::int64_t forced = forced_threads;
  const std::int64_t deserved = std::min(cores, 1 + count * work / worth_a_thread);
  const std::int64_t threads = std::min(forced > 0 ? forced : deserved, count);
  if (threads <= 1 || OneThread::holds()) {
    for (std::int64_t i = 0; i < count; ++i) action(i);
    return;
  }
  const std::int64_t grain = std::max<std::int64_t>(1, count / (threads * 16));
  std::atomic<std::int64_t> next{0};
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(threads));
  on_threads(threads, [&](std::size_t turn) {
    try {
      for (std::int64_t first; (first = next.fetch_add(grain)) < count;)
        for (std::int64_t i = first; i < std::min(count, first + grain); ++i) action(i);
    } catch (...) {
      errors[turn] = std::current_exception();
    }
  });
  for (const std::exception_ptr& e : errors)
    if (e) std::rethrow_exception(e);
}

}  // namespace opbound
