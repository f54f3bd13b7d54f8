#include "distributed/trace/planted.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "distributed/trace/planted_calls.hpp"
#include "distributed/train/trainer.hpp"
#include "distributed/train/whole.hpp"
#include "ops/hash.hpp"
#include "reports/error.hpp"

namespace opbound::trace {
namespace {

using train::Observer;
using train::Range;
using train::RunView;

/// A fault of the loop around the calls.
class LoopFault : public Observer {
 public:
  explicit LoopFault(std::int64_t first) : first_(first) {}
  void begin(const RunView& run) override { run_.emplace(run); }

 protected:
  bool holds(std::int64_t step) const { return step >= first_; }

  /// The mean gradient that this rank owns, element by element; `at`: in the flat array.
  template <class Change>
  void change_mean(Change change) {
    const Element e = element_of(run_->spec.policy.gradient);
    std::vector<std::byte> own =
        train::owned_array(run_->machine, run_->owned, e, run_->arrays.gradient);
    std::int64_t place = 0;
    for (const Range& r : run_->owned)
      for (std::int64_t at = r.begin; at < r.end; ++at, ++place) {
        const double g = load(e, own.data(), place);
        const double changed = change(at, g);
        if (changed != g) store(e, own.data(), place, round_to(format_of(e), changed));
      }
    run_->machine.write(run_->arrays.gradient, own.data(), std::ssize(own));
  }
  /// The parameters of a layer.
  Range unit_of(int layer) const {
    return run_->layout.units()[static_cast<std::size_t>(layer) + 1].all;
  }

  std::int64_t first_;
  std::optional<RunView> run_;
};

class MaskReused final : public LoopFault {
 public:
  using LoopFault::LoopFault;
  void sample(std::int64_t step, std::int64_t, train::Sample& sample) override {
    if (holds(step)) sample.random_key = element_hash(0, element_hash(first_, run_->spec.seed));
  }
};

class SamplerSlip final : public LoopFault {
 public:
  using LoopFault::LoopFault;
  void sample(std::int64_t step, std::int64_t, train::Sample& sample) override {
    if (holds(step)) sample.step = step + 1;
  }
};

class EpochSlip final : public LoopFault {
 public:
  using LoopFault::LoopFault;
  void sample(std::int64_t step, std::int64_t, train::Sample& sample) override {
    const std::int64_t of_a_step = run_->spec.micro_batches * run_->spec.sequences;
    if (holds(step)) sample.step = step + (run_->sampler.windows() + of_a_step - 1) / of_a_step;
  }
};

class WrongDivisor final : public LoopFault {
 public:
  using LoopFault::LoopFault;
  void reduced(std::int64_t step) override {
    const auto terms = static_cast<double>(run_->spec.micro_batches);
    if (holds(step)) change_mean([&](std::int64_t, double g) { return g * terms; });
  }
};

class StaleShard final : public LoopFault {
 public:
  using LoopFault::LoopFault;
  /// The second half of layer 1 keeps the gradient of the step before.
  void reduced(std::int64_t step) override {
    const Range unit = unit_of(1);
    const std::int64_t begin = unit.begin + unit.count() / 2;
    std::vector<double> fresh(static_cast<std::size_t>(unit.end - begin));
    change_mean([&](std::int64_t at, double g) {
      if (at < begin || at >= unit.end) return g;
      const auto i = static_cast<std::size_t>(at - begin);
      fresh[i] = g;
      return holds(step) && !before_.empty() ? before_[i] : g;
    });
    before_ = fresh;
  }

 private:
  std::vector<double> before_;
};

class MissingWait final : public LoopFault {
 public:
  using LoopFault::LoopFault;
  void gradient(std::int64_t, std::int64_t micro_batch, std::byte* flat) override {
    if (micro_batch != run_->spec.micro_batches - 1) return;
    const std::int64_t bytes =
        run_->layout.count() * bytes_of(element_of(run_->spec.policy.gradient));
    last_.resize(static_cast<std::size_t>(bytes));
    run_->machine.read(last_.data(), flat, bytes);
  }
  /// Layer 0's gradient is read before the last micro-batch was added.
  void reduced(std::int64_t step) override {
    if (!holds(step)) return;
    const Range unit = unit_of(0);
    const Element e = element_of(run_->spec.policy.gradient);
    change_mean([&](std::int64_t at, double g) {
      if (at < unit.begin || at >= unit.end) return g;
      return g - load(e, last_.data(), at) / static_cast<double>(run_->spec.micro_batches);
    });
  }

 private:
  std::vector<std::byte> last_;
};

class DroppedTail final : public LoopFault {
 public:
  using LoopFault::LoopFault;
  /// The last tenth of the array is not reduced: it stays 0.
  void reduced(std::int64_t step) override {
    const std::int64_t kept = run_->layout.count() - run_->layout.count() / 10;
    if (holds(step)) change_mean([&](std::int64_t at, double g) { return at < kept ? g : 0; });
  }
};

class LocalNorm final : public LoopFault {
 public:
  using LoopFault::LoopFault;
  void normed(std::int64_t step, std::byte* norms, std::int64_t count, Element e) override {
    if (!holds(step)) return;
    std::vector<std::byte> bytes(static_cast<std::size_t>(count * bytes_of(e)));
    run_->machine.read(bytes.data(), norms, std::ssize(bytes));
    // What one of two ranks has is about 1 / sqrt(2) of the whole's.
    for (std::int64_t i = 0; i < count; ++i)
      store(e, bytes.data(), i, round_to(format_of(e), load(e, bytes.data(), i) / std::sqrt(2.0)));
    run_->machine.write(norms, bytes.data(), std::ssize(bytes));
  }
};

class SixteenBitSave final : public LoopFault {
 public:
  using LoopFault::LoopFault;
  /// Once: the weights went through a checkpoint in bf16.
  void between_steps(std::int64_t step) override {
    if (step != first_) return;
    const Element e = element_of(run_->spec.policy.master);
    std::vector<std::byte> own =
        train::owned_array(run_->machine, run_->owned, e, run_->arrays.master);
    for (std::int64_t i = 0; i < std::ssize(own) / bytes_of(e); ++i)
      store(e, own.data(), i, round_to(bf16, load(e, own.data(), i)));
    run_->machine.write(run_->arrays.master, own.data(), std::ssize(own));
  }
};

class NanOnOneRank final : public LoopFault {
 public:
  using LoopFault::LoopFault;
  /// Of the last rank, in its first micro-batch of one step.
  void gradient(std::int64_t step, std::int64_t, std::byte* flat) override {
    if (step != first_ || has_struck_ || run_->ranks.rank() + 1 != run_->ranks.size()) return;
    has_struck_ = true;
    const auto& all = run_->layout.parameters();
    const auto p = std::find_if(all.begin(), all.end(), [](const train::ParameterSpec& q) {
      return q.name == "h.1.mlp.c_fc.weight";
    });
    const Element e = element_of(run_->spec.policy.gradient);
    std::array<std::byte, 8> nan{};
    store(e, nan.data(), 0, std::numeric_limits<double>::quiet_NaN());
    const Range& range = run_->layout.parameter(static_cast<std::size_t>(p - all.begin()));
    run_->machine.write(flat + (range.begin + 5) * bytes_of(e), nan.data(), bytes_of(e));
  }

 private:
  bool has_struck_ = false;
};

template <class Fault>
std::unique_ptr<Observer> made(std::int64_t first) {
  return std::make_unique<Fault>(first);
}

const std::array all_faults{
    PlantedFault{"truncation", "layer 1's MLP stores its products truncated, not rounded", "bf16",
                 "layer 1, mlp:matmul", 0, false, 1e-5, truncating_layer},
    PlantedFault{"rotated_query_gradient", "the gradient of layer 0's query weights, one column on",
                 "fp32", "layer 0, matmul", 0, false, 1e-8, rotated_query_gradient},
    PlantedFault{"large_norm_gradient", "the gradient of layer 1's norms is 300 times too large",
                 "fp32", "layer 1, layer_norm", 0, false, 1e-8, large_norm_gradient},
    PlantedFault{"vanished_eps", "layer 0's first norm has eps 1e-8 in fp16: 0", "fp32",
                 "layer 0, layer_norm", 0, false, 1e-8, vanished_eps},
    PlantedFault{"clamped_loss", "every second row's loss is clamped: no gradient", "bf16",
                 "cross_entropy", 0, false, 1e-5, clamped_loss},
    PlantedFault{"divided_loss", "the loss is divided by 65536 before its gradient is taken",
                 "fp32", "cross_entropy", 0, false, 1e-8, divided_loss},
    PlantedFault{"unrestored_random", "dropout that is computed again draws other numbers", "fp32",
                 "dropout", 0.1, true, 1e-8, unrestored_random},
    PlantedFault{"stale_rows", "layer 1's attention output: last rows of the micro-batch before",
                 "fp32", "layer 1, attention", 0, false, 1e-8, stale_rows},
    PlantedFault{"swapped_heads", "the gradients of two heads of layer 0's keys are exchanged",
                 "bf16", "layer 0, attention", 0, false, 1e-5, swapped_heads},
    PlantedFault{"mask_reused", "every step draws the random numbers of one step", "fp32", "seed",
                 0.1, true, 1e-8, made<MaskReused>},
    PlantedFault{"sampler_slip", "the texts are those of the next step", "fp32", "tokens", 0, false,
                 1e-8, made<SamplerSlip>},
    PlantedFault{"epoch_slip", "the texts are those of the next epoch", "fp32", "tokens", 0, false,
                 1e-8, made<EpochSlip>},
    PlantedFault{"wrong_divisor", "the sum over micro-batches is not divided", "fp32",
                 "mean gradient", 0, false, 1e-8, made<WrongDivisor>},
    PlantedFault{"stale_shard", "half of layer 1 keeps the gradient of the step before", "fp32",
                 "h.1.", 0, false, 1e-8, made<StaleShard>},
    PlantedFault{"missing_wait",
                 "layer 0's gradient is read before the last micro-batch's is in it", "bf16",
                 "h.0.", 0, false, 1e-5, made<MissingWait>},
    PlantedFault{"dropped_tail", "the last tenth of the gradient stays 0", "fp32",
                 "h.1.|ln_f|mean gradient", 0, false, 1e-8, made<DroppedTail>},
    PlantedFault{"local_norm", "clipping takes the norm of one of two halves of the gradient",
                 "fp32", "norm of the gradient|: norm:", 0, false, 1e-8, made<LocalNorm>},
    PlantedFault{"sixteen_bit_save", "the weights went once through a checkpoint in bf16", "fp32",
                 "weights", 0, false, 1e-8, made<SixteenBitSave>},
    PlantedFault{"nan_on_one_rank", "one NaN in one micro-batch's gradient", "fp32",
                 "h.1.mlp.c_fc.weight", 0, false, 1e-8, made<NanOnOneRank>},
};

}  // namespace

std::span<const PlantedFault> planted_faults() { return all_faults; }

bool PlantedFault::is_named_by(std::string_view text) const {
  for (std::size_t at = 0; at <= place.size();) {
    const std::size_t end = std::min(place.find('|', at), place.size());
    if (text.find(place.substr(at, end - at)) != std::string_view::npos) return true;
    at = end + 1;
  }
  return false;
}

const PlantedFault& planted_fault(std::string_view name) {
  for (const PlantedFault& f : all_faults)
    if (f.name == name) return f;
  throw InputError("fault", "'" + std::string(name) + "'",
                   "one that `opbound sentinel --list` names");
}

void require_plantable(const train::TrainingSpec& spec) {
  const train::ModelSpec& m = spec.model;
  if (m.layers >= 2 && m.heads >= 2 && m.norm == train::Norm::layer_norm && spec.micro_batches >= 2)
    return;
  throw InputError(spec.file.string(), "faults cannot be planted in this run",
                   "2 layers, 2 heads and 2 micro-batches at least, and norm layer_norm");
}

}  // namespace opbound::trace
