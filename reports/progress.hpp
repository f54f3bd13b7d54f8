// A progress bar for someone who watches; silent for everyone else.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace opbound {

/// Draws on a file descriptor (stderr) if that is a terminal, at most ten times a second, and wipes
/// its line when it ends, so that what is printed afterwards stands alone. For one thread.
class Progress {
 public:
  static constexpr int standard_error = 2;

  Progress(std::uint64_t total, std::string label, int descriptor = standard_error);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// n more of the total are done; `what` comes next.
  void advance(std::uint64_t n = 1, std::string_view what = {});

  /// Wipes the line; the next advance draws it again.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  std::string line(std::string_view what, Clock::time_point now) const;

  std::uint64_t total_;
  std::uint64_t done_ = 0;
  std::string label_;
  int descriptor_;
  bool enabled_;
  bool drawn_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point next_draw_ = start_;
};

/// The bar alone, without control characters: "gelu [=====>    ]  52%  130/250  7 s left  what",
/// cut to `columns`; the time left is told once a tenth is done.
std::string progress_line(std::string_view label, std::uint64_t done, std::uint64_t total,
                          double elapsed_s, std::string_view what, std::size_t columns);

}  // namespace opbound
