#include "distributed/train/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "reports/text.hpp"

namespace opbound::train {
namespace {

double tokens_per_second(double tokens, double time_ms) {
  return time_ms > 0 ? tokens * 1000 / time_ms : 0;
}

/// Of the steps from `first` on.
double median_speed(const std::vector<StepResult>& steps, std::size_t first) {
  if (steps.size() > first + 1) ++first;
  std::vector<double> speeds;
  for (std::size_t i = first; i < steps.size(); ++i)
    speeds.push_back(tokens_per_second(static_cast<double>(steps[i].tokens), steps[i].time_ms));
  if (speeds.empty()) return 0;
  const auto middle = speeds.begin() + static_cast<std::ptrdiff_t>(speeds.size() / 2);
  std::nth_element(speeds.begin(), middle, speeds.end());
  return *middle;
}

std::string heading(const RunRecord& r) {
  const auto word = [&](const char* of, const char* key) {
    return printable(r.spec.at(of).value(key, std::string()), false);
  };
  return fmt::format("{} of {} parameters, policy {}, {} of {}, {}\n", word("model", "name"),
                     r.parameters, word("policy", "name"),
                     r.ranks == 1 ? "1 rank" : fmt::format("{} ranks", r.ranks),
                     printable(r.device, false), r.transport);
}

std::string row(const StepResult& s) {
  return fmt::format("{:>8} {:>10} {:>14} {:>11} {:>11}{}\n", s.step, fmt::format("{:.4f}", s.loss),
                     legible(s.gradient_norm), shortest(s.loss_scale), fmt::format("{:.3g}", s.lr),
                     s.is_skipped ? "  skipped" : "");
}

/// About ten steps, the first and the last among them.
std::string table(const std::vector<StepResult>& steps) {
  std::string text = fmt::format("{:>8} {:>10} {:>14} {:>11} {:>11}\n", "step", "loss",
                                 "gradient norm", "loss scale", "lr");
  const std::size_t last = steps.size() - 1, rows = std::min<std::size_t>(last, 10);
  for (std::size_t i = 0; i < rows; ++i) text += row(steps[i * last / rows]);
  return text + row(steps[last]);
}

std::string ending(const LoggedRun& run) {
  if (!run.result) return "killed, or still running";
  if (run.result->end == RunEnd::failed) return "failed: " + printable(run.result->reason, false);
  return std::string(run_end_names[static_cast<std::size_t>(run.result->end)]);
}

constexpr double bytes_of_mib = 1 << 20;

}  // namespace

bool is_training_log(const std::string& path) {
  std::string line;
  std::getline(std::ifstream(path, std::ios::binary), line);
  return line.find("\"kind\":\"training_") < line.find(',', line.find(',') + 1);
}

std::string progress_text(const StepResult& s) {
  return fmt::format(
      "loss {:.3f}, gradient norm {}, {}{} tokens/s", s.loss, legible(s.gradient_norm),
      s.loss_scale == 1 ? "" : fmt::format("scale {}, ", shortest(s.loss_scale)),
      legible(
          static_cast<std::uint64_t>(tokens_per_second(static_cast<double>(s.tokens), s.time_ms))));
}

std::string training_report(const LoggedRun& run) {
  std::string text = heading(run.parts.back());
  const auto skipped = std::count_if(run.steps.begin(), run.steps.end(),
                                     [](const StepResult& s) { return s.is_skipped; });
  if (!run.steps.empty()) {
    text += table(run.steps);
    const std::int64_t before = run.parts.back().first_step - run.first().first_step;
    text += fmt::format(
        "loss {:.4f} to {:.4f}, {} steps skipped, {:.0f} tokens/s", run.steps.front().loss,
        run.steps.back().loss, skipped,
        median_speed(run.steps, static_cast<std::size_t>(std::max<std::int64_t>(before, 0))));
    if (run.parts.size() > 1) text += fmt::format(", resumed {} times", run.parts.size() - 1);
    text += "\n";
  }
  if (run.result && run.result->result)
    text += fmt::format("{:.1f} MiB of memory, {:.1f} of it for activations\n",
                        static_cast<double>(run.result->result->allocated_bytes) / bytes_of_mib,
                        static_cast<double>(run.result->result->arena_bytes) / bytes_of_mib);
  return text + fmt::format("{} after {} steps\n", ending(run),
                            run.first().first_step + static_cast<std::int64_t>(run.steps.size()));
}

}  // namespace opbound::train
