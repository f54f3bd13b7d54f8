#include "ops/parallel.hpp"

#include <pthread.h>

#include <condition_variable>
#include <exception>
#include <mutex>

namespace opbound {
namespace {

using Work = std::function<void(std::size_t)>;

/// Starts a thread; false where the system has none: what there is does all the work.
template <class F>
bool start(F start_one) {
  try {
    start_one();
    return true;
  } catch (const std::exception&) {  // no thread, or no memory for one
    return false;
  }
}

/// Threads that wait for one job after the other.
class Pool {
 public:
  /// False, and nothing done, where another thread's job is under way: nobody waits for it.
  bool run(std::int64_t turns, const Work& work) {
    const std::unique_lock job(job_, std::try_to_lock);
    if (!job.owns_lock()) return false;
    {
      const std::lock_guard lock(mutex_);
      work_ = &work;
      next_turn_ = 1;
      turns_ = static_cast<std::size_t>(turns);
      while (threads_ + 1 < turns_ &&
             start([this] { std::thread([this] { wait_for_jobs(); }).detach(); }))
        ++threads_;
    }
    wake_.notify_all();
    work(0);
    std::unique_lock lock(mutex_);
    turns_ = 0;  // what has not begun is not needed any more
    done_.wait(lock, [this] { return running_ == 0; });
    work_ = nullptr;
    return true;
  }

 private:
  void wait_for_jobs() {
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [this] { return next_turn_ < turns_; });
      const std::size_t turn = next_turn_++;
      const Work& work = *work_;
      ++running_;
      lock.unlock();
      work(turn);
      lock.lock();
      if (--running_ == 0) done_.notify_one();
    }
  }

  std::mutex job_;  ///< held by the thread whose job it is
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  const Work* work_ = nullptr;
  std::size_t next_turn_ = 0, turns_ = 0, running_ = 0, threads_ = 0;
};

/// Never destroyed: its threads wait until the process ends. A child of fork has none of them, so
/// it begins anew.
Pool*& pool() {
  static Pool* one = [] {
    pthread_atfork(nullptr, nullptr, [] { pool() = new Pool; });
    return new Pool;
  }();
  return one;
}

}  // namespace

void on_threads(std::int64_t turns, const Work& work) {
  if (pool()->run(turns, work)) return;
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(turns));
  for (std::int64_t t = 1; t < turns; ++t) {
    const auto turn = [&work, t] { work(static_cast<std::size_t>(t)); };
    if (!start([&] { threads.emplace_back(turn); })) break;
  }
  work(0);
  for (std::thread& t : threads) t.join();
}

}  // namespace opbound
