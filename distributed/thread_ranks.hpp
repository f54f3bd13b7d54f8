// Ranks that are threads of one process and hand one another bytes: a transport that blocks, as a
// real one does. For experiments and tests.
#pragma once

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "distributed/communicator.hpp"

namespace opbound {

class Post {
 public:
  using Key = std::array<std::int32_t, 3>;

  void put(const Key& key, std::span<const std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    letters_[key].emplace_back(bytes.begin(), bytes.end());
    change_.notify_all();
  }
  void get(const Key& key, std::span<std::byte> bytes) {
    std::unique_lock lock(mutex_);
    change_.wait(lock, [&] { return !letters_[key].empty(); });
    auto& waiting = letters_[key];
    if (waiting.front().size() != bytes.size()) std::abort();  // a receiver has the sender's size
    std::copy(waiting.front().begin(), waiting.front().end(), bytes.begin());
    waiting.erase(waiting.begin());
  }

 private:
  std::mutex mutex_;
  std::condition_variable change_;
  std::map<Key, std::vector<std::vector<std::byte>>> letters_;
};

class ThreadRank final : public Communicator {
 public:
  ThreadRank(Post& post, std::int32_t rank, std::int32_t size)
      : post_(post), rank_(rank), size_(size) {}

  std::int32_t rank() const override { return rank_; }
  std::int32_t size() const override { return size_; }
  void exchange(std::span<const Sent> sent, std::span<const Received> received) override {
    for (const Sent& s : sent) post_.put({rank_, s.to, s.tag}, s.bytes);
    for (const Received& r : received) post_.get({r.from, rank_, r.tag}, r.bytes);
    for (const Sent& s : sent) bytes_ += s.bytes.size();
  }
  std::size_t bytes() const { return bytes_; }

 private:
  Post& post_;
  std::int32_t rank_, size_;
  std::size_t bytes_ = 0;
};

/// action(unique_ptr<ThreadRank>) on every rank.
template <class F>
void on_thread_ranks(std::int32_t ranks, F action) {
  Post post;
  std::vector<std::thread> threads;
  for (std::int32_t r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] { action(std::make_unique<ThreadRank>(post, r, ranks)); });
  for (std::thread& t : threads) t.join();
}

}  // namespace opbound
