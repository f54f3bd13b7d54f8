// A micro-batch of a run as it ran: every value that its calls read and wrote.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "distributed/trace/exact_tape.hpp"
#include "distributed/train/observer.hpp"

namespace opbound::trace {

struct Captured {
  std::int64_t step = 0, micro_batch = 0;  ///< from 0; in the order of all ranks
  Values values;                           ///< as fp64, exact
  std::vector<AttributeBytes> attributes;  ///< by call
  std::vector<Tensor> master;              ///< the weights before rounding, by parameter; as fp64
  std::int64_t changed = 0;   ///< elements that a call read otherwise than they were written
  std::string first_changed;  ///< which call read the first of them
};

/// Which micro-batches are captured.
using Wanted = std::function<bool(std::int64_t step, std::int64_t micro_batch)>;

class Capture final : public train::Observer {
 public:
  /// What is done with a micro-batch when its calls are done: before the next one begins.
  using Use = std::function<void(Captured&)>;

  /// And with the mean gradient of a step of which one was captured, by parameter, as fp64.
  using UseMean = std::function<void(std::int64_t step, const std::vector<Tensor>& mean)>;

  Capture(Wanted wanted, Use use, UseMean use_mean = {})
      : wanted_(std::move(wanted)), use_(std::move(use)), use_mean_(std::move(use_mean)) {}

  /// Before the first step. Throws InputError where the run has more than one rank.
  void begin(const train::RunView& run) override;
  bool sees_calls(std::int64_t step, std::int64_t micro_batch) override;
  void before_call(const train::CallPlace& place, const train::Step& step,
                   const Call& call) override;
  void after_call(const train::CallPlace& place, const train::Step& step,
                  const Call& call) override;
  void gradient(std::int64_t step, std::int64_t micro_batch, std::byte* flat) override;
  void reduced(std::int64_t step) override;

  const train::RunView& run() const { return run_.value(); }
  const ExactTape& exact() const { return *exact_; }

 private:
  Tensor read(const TensorView& view);
  std::vector<Tensor> read_parameters(std::byte* flat, const Format& format);
  void take_input(std::size_t index, const train::Step& step, const train::Ref& r,
                  const TensorView& there);

  Wanted wanted_;
  Use use_;
  UseMean use_mean_;
  bool has_captured_ = false;  ///< of this step
  std::optional<train::RunView> run_;
  std::unique_ptr<ExactTape> exact_;
  std::optional<Captured> captured_;
  std::vector<std::byte> bytes_;
};

}  // namespace opbound::trace
