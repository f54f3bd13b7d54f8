#include "reports/progress.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "reports/text.hpp"

namespace opbound {
namespace {

constexpr std::string_view wipe_line = "\r\033[K";

/// A bar that cannot be drawn is no error of the run.
void draw(int descriptor, std::string_view text) {
  [[maybe_unused]] const ssize_t written = ::write(descriptor, text.data(), text.size());
}

}  // namespace

Progress::Progress(std::uint64_t total, std::string label, int descriptor)
    : total_(total),
      label_(std::move(label)),
      descriptor_(descriptor),
      enabled_(isatty(descriptor) != 0) {}

void Progress::advance(std::uint64_t n, std::string_view what) {
  done_ += std::min(n, total_ - done_);
  if (!enabled_) return;
  const Clock::time_point now = Clock::now();
  if (now < next_draw_) return;
  next_draw_ = now + std::chrono::milliseconds(100);
  draw(descriptor_, std::string(wipe_line) + line(what, now));
  drawn_ = true;
}

void Progress::clear() {
  if (drawn_) draw(descriptor_, wipe_line);
  drawn_ = false;
}

std::string Progress::line(std::string_view what, Clock::time_point now) const {
  winsize size{};
  const bool known = ioctl(descriptor_, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  const std::chrono::duration<double> elapsed = now - start_;
  // The last column stays free: writing it makes some terminals start a new line.
  return progress_line(label_, done_, total_, elapsed.count(), what,
                       known ? size.ws_col - std::size_t{1} : 79);
}

std::string progress_line(std::string_view label, std::uint64_t done, std::uint64_t total,
                          double elapsed_s, std::string_view what, std::size_t columns) {
  constexpr std::size_t bar_width = 24;
  const double share = total == 0 ? 1.0 : static_cast<double>(done) / static_cast<double>(total);
  const auto full = static_cast<std::size_t>(share * bar_width);
  std::string bar(full, '=');
  if (full < bar_width) bar += '>';
  bar.resize(bar_width, ' ');
  std::string percent = std::to_string(static_cast<int>(share * 100));
  percent.insert(0, 3 - percent.size(), ' ');
  std::string text = std::string(label) + " [" + bar + "] " + percent + "%  " +
                     std::to_string(done) + "/" + std::to_string(total);
  if (share >= 0.1 && done < total) {
    const double left_s = elapsed_s * (1 - share) / share;
    text += left_s < 90 ? "  " + std::to_string(static_cast<int>(left_s) + 1) + " s left"
                        : "  " + std::to_string(static_cast<int>(left_s / 60) + 1) + " min left";
  }
  if (!what.empty()) text += "  " + std::string(what);
  return shortened(printable(text, false), columns, false);
}

}  // namespace opbound
