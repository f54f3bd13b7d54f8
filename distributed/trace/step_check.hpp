// What a step's calls come to: the sum of its gradients, their norm, the loss, the numbers that the
// host decides, and what all ranks have alike.
#pragma once

#include <optional>
#include <vector>

#include "distributed/trace/gradient_check.hpp"
#include "distributed/trace/links.hpp"
#include "distributed/train/trainer.hpp"

namespace opbound::trace {

class StepCheck {
 public:
  /// `seed`: of the signs; the same on all ranks.
  StepCheck(const train::RunView& run, Links& links, std::uint64_t seed, Links::Report report);

  void begin(std::int64_t step);
  /// A call as it shall be, of the step.
  void call(const train::CallPlace& place, const train::Step& step, const Call& call);
  /// A micro-batch is done; its gradient lies in this flat array.
  void gradient(std::int64_t micro_batch, const std::byte* flat);
  void mean(std::int64_t step);
  void norms(const std::byte* norms, std::int64_t count, Element element);
  /// Every rank calls it, for the ranks' sums are added here.
  void end(const train::StepResult& result);

 private:
  /// Where each rank's numbers stand in what is gathered.
  struct Places {
    std::size_t mean, losses, known, norms, weights, all;
  };

  Places places() const;
  std::vector<double> numbers() const;
  void compare_means(const std::vector<double>& all, std::int64_t step);
  void compare_loss(const std::vector<double>& all, const train::StepResult& result);
  void compare_norms(const std::vector<double>& all, const train::StepResult& result);
  void compare_weights(const std::vector<double>& all);
  void compare_scale(const train::StepResult& result);
  std::uint64_t hash_of_weight(std::size_t parameter) const;
  double scalar(const std::byte* there, Element element) const;
  std::int64_t most_losses() const;
  void report(const char* check, const std::string& tensor, double got, double expected,
              double bound, std::string text, const std::string& parameter = {},
              std::int64_t micro_batch = -1);

  const train::RunView& run_;
  Links& links_;
  std::uint64_t seed_;
  Links::Report report_;
  int loss_scale_ = -1;  ///< the value of the tape
  std::int64_t step_ = 0;
  std::vector<SignSums> terms_, mean_;
  std::vector<double> losses_;
  std::vector<std::pair<std::int64_t, double>> upstream_;  ///< micro-batch, value
  std::vector<double> norms_;                              ///< as the update reads them
  std::vector<double> own_norms_;                          ///< as this rank's calls wrote them
  std::vector<char> is_own_norm_;
  Element norm_element_ = Element::fp32;
  std::optional<double> scale_, lr_;
};

}  // namespace opbound::trace
