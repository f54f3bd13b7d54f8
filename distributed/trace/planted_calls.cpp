#include "distributed/trace/planted_calls.hpp"

#include <algorithm>
#include <cmath>

#include "distributed/trace/read_view.hpp"
#include "ops/set_attribute.hpp"

namespace opbound::trace {
namespace {

using train::CallPlace;
using train::RunView;
using train::Step;

/// A fault in the model's calls, once the run has come to its first step.
class CallFault : public train::Observer {
 public:
  explicit CallFault(std::int64_t first) : first_(first) {}
  void begin(const RunView& run) override { machine_ = &run.machine; }
  bool sees_calls(std::int64_t step, std::int64_t micro_batch) override {
    return step >= first_ && micro_batch >= 0;
  }

 protected:
  static std::size_t place_of(const Step& step, std::string_view tensor) {
    const auto& tensors = step.spec.op->pass(step.spec.direction).tensors;
    for (std::size_t t = 0; t < tensors.size(); ++t)
      if (tensors[t].name == tensor) return t;
    detail::require(false, "a planted fault's op has the tensor");
    return 0;
  }
  static const TensorView& view_of(const Step& step, const Call& call, std::string_view tensor) {
    const auto& views = call.direction == Direction::forward ? call.forward : call.backward;
    return views[place_of(step, tensor)];
  }
  Tensor read(const TensorView& view) const { return copied(*machine_, view); }
  /// Writes what is contiguous there.
  void write(const TensorView& view, const Tensor& tensor) const {
    detail::require(view.is_contiguous(), "a planted fault writes a whole tensor");
    machine_->write(view.data, tensor.bytes().data(),
                    static_cast<std::int64_t>(tensor.bytes().size()));
  }
  static bool is(const Step& step, std::string_view op, int layer, bool is_forward) {
    return step.spec.op->name == op && step.layer == layer &&
           (step.spec.direction == Direction::forward) == is_forward;
  }

  std::int64_t first_;
  train::Machine* machine_ = nullptr;
};

class TruncatingLayer final : public CallFault {
 public:
  using CallFault::CallFault;
  /// The kernel stores a wide result; what is stored of it is cut off afterwards.
  void alter_call(const CallPlace&, const Step& step, Call& call) override {
    if (!is_it(step)) return;
    const TensorView narrow = view_of(step, call, "d");
    wide_ = Tensor(element_of(call.compute), Shape(narrow.size, narrow.size + narrow.rank));
    call.forward[place_of(step, "d")] = wide_.view();
  }
  void after_call(const CallPlace&, const Step& step, const Call& call) override {
    if (!is_it(step)) return;
    const TensorView& there = view_of(step, call, "d");
    const Format f = format_of(there.element);
    Tensor narrow(there.element, wide_.shape());
    for (std::int64_t i = 0; i < narrow.count(); ++i) {
      const double x = wide_.at(i);
      double cut = round_to(f, x);
      // Rounded away from 0: one step back towards it.
      if (std::abs(cut) > std::abs(x)) cut -= std::copysign(ulp(f, std::abs(x)), x);
      narrow.set(i, cut);
    }
    write(there, narrow);
  }

 private:
  static bool is_it(const Step& step) {
    return is(step, "matmul", 1, true) && step.part == "mlp:matmul";
  }
  Tensor wide_;
};

/// Changes one output of some calls after they have run.
class ChangedOutput : public CallFault {
 public:
  using CallFault::CallFault;
  void after_call(const CallPlace& place, const Step& step, const Call& call) override {
    const std::string_view name = output_of(step);
    if (name.empty()) return;
    const TensorView& view = view_of(step, call, name);
    Tensor t = read(view);
    change(place, t);
    write(view, t);
  }

 protected:
  /// The tensor that is changed; empty: none of this call's.
  virtual std::string_view output_of(const Step& step) const = 0;
  virtual void change(const CallPlace& place, Tensor& t) = 0;
};

class RotatedQueryGradient final : public ChangedOutput {
 public:
  using ChangedOutput::ChangedOutput;

 protected:
  /// The weights' gradient of the first projection of layer 0, the only one three times as wide.
  std::string_view output_of(const Step& step) const override {
    if (!is(step, "matmul", 0, false) || step.part != "matmul") return {};
    const auto t = place_of(step, "db");
    const auto& size = step.tensors[t].size;
    return step.tensors[t].exists() && size.size() == 2 && size[1] == 3 * size[0]
               ? std::string_view("db")
               : std::string_view();
  }
  void change(const CallPlace&, Tensor& t) override {
    const std::int64_t rows = t.shape()[0], columns = t.shape()[1], queries = columns / 3;
    const Tensor before = t;
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < queries; ++c)
        t.set(r * columns + (c + 1) % queries, before.at(r * columns + c));
  }
};

class LargeNormGradient final : public ChangedOutput {
 public:
  using ChangedOutput::ChangedOutput;

 protected:
  std::string_view output_of(const Step& step) const override {
    if (!is(step, "layer_norm", 1, false)) return {};
    return "dgamma";
  }
  void change(const CallPlace&, Tensor& t) override {
    for (std::int64_t i = 0; i < t.count(); ++i) t.set(i, 300 * t.at(i));
  }
};

class ClampedLoss final : public ChangedOutput {
 public:
  using ChangedOutput::ChangedOutput;

 protected:
  std::string_view output_of(const Step& step) const override {
    return is(step, "cross_entropy", -1, false) ? "dlogits" : "";
  }
  /// Every second row's loss lies above the clamp.
  void change(const CallPlace&, Tensor& t) override {
    const std::int64_t columns = t.shape().back();
    for (std::int64_t i = 0; i < t.count(); ++i)
      if (i / columns % 2 == 1) t.set(i, 0);
  }
};

class VanishedEps final : public CallFault {
 public:
  using CallFault::CallFault;
  void alter_call(const CallPlace& place, const Step& step, Call& call) override {
    if (place.index < first_norm_ && is(step, "layer_norm", 0, true)) first_norm_ = place.index;
    if (place.index == first_norm_) set_attribute(*step.spec.op, call.attributes, "eps", 0.0);
  }

 private:
  std::size_t first_norm_ = ~std::size_t{0};
};

class DividedLoss final : public CallFault {
 public:
  using CallFault::CallFault;
  void alter_call(const CallPlace&, const Step& step, Call& call) override {
    if (!is(step, "cross_entropy", -1, false)) return;
    const std::size_t t = place_of(step, "dreduced");
    scaled_ = read(call.backward[t]);
    for (std::int64_t i = 0; i < scaled_.count(); ++i) scaled_.set(i, scaled_.at(i) / 65536);
    call.backward[t] = there(scaled_);
  }

 private:
  /// Where the machine can read it.
  TensorView there(Tensor& t) {
    const auto bytes = static_cast<std::int64_t>(t.bytes().size());
    if (memory_ == nullptr) memory_ = machine_->allocate(bytes);
    machine_->write(memory_, t.bytes().data(), bytes);
    TensorView view = t.view();
    view.data = memory_;
    return view;
  }
  Tensor scaled_;
  std::byte* memory_ = nullptr;
};

class UnrestoredRandom final : public CallFault {
 public:
  using CallFault::CallFault;
  /// A site that draws for the second time in a micro-batch is computed again.
  void alter_call(const CallPlace& place, const Step& step, Call& call) override {
    if (step.site < 0 || step.spec.direction != Direction::forward) return;
    if (place.micro_batch != micro_batch_) drawn_.clear();
    micro_batch_ = place.micro_batch;
    if (std::find(drawn_.begin(), drawn_.end(), step.site) == drawn_.end()) {
      drawn_.push_back(step.site);
      return;
    }
    set_attribute(*step.spec.op, call.attributes, "seed", std::int64_t{place.step + 1});
  }

 private:
  std::vector<int> drawn_;
  std::int64_t micro_batch_ = -1;
};

class StaleRows final : public ChangedOutput {
 public:
  using ChangedOutput::ChangedOutput;

 protected:
  std::string_view output_of(const Step& step) const override {
    return is(step, "attention", 1, true) ? "o" : "";
  }
  void change(const CallPlace&, Tensor& t) override {
    const Tensor fresh = t;
    if (before_.count() == t.count())
      for (std::int64_t i = t.count() * 3 / 4; i < t.count(); ++i) t.set(i, before_.at(i));
    before_ = fresh;
  }

 private:
  Tensor before_;
};

class SwappedHeads final : public ChangedOutput {
 public:
  using ChangedOutput::ChangedOutput;

 protected:
  std::string_view output_of(const Step& step) const override {
    return is(step, "attention", 0, false) ? "dk" : "";
  }
  void change(const CallPlace&, Tensor& t) override {
    const std::int64_t head = t.count() / t.shape()[0];
    for (std::int64_t i = 0; i < head; ++i) {
      const double first = t.at(i);
      t.set(i, t.at(head + i));
      t.set(head + i, first);
    }
  }
};

template <class Fault>
std::unique_ptr<train::Observer> made(std::int64_t first) {
  return std::make_unique<Fault>(first);
}

}  // namespace

std::unique_ptr<train::Observer> truncating_layer(std::int64_t first) {
  return made<TruncatingLayer>(first);
}
std::unique_ptr<train::Observer> rotated_query_gradient(std::int64_t first) {
  return made<RotatedQueryGradient>(first);
}
std::unique_ptr<train::Observer> large_norm_gradient(std::int64_t first) {
  return made<LargeNormGradient>(first);
}
std::unique_ptr<train::Observer> vanished_eps(std::int64_t first) {
  return made<VanishedEps>(first);
}
std::unique_ptr<train::Observer> clamped_loss(std::int64_t first) {
  return made<ClampedLoss>(first);
}
std::unique_ptr<train::Observer> divided_loss(std::int64_t first) {
  return made<DividedLoss>(first);
}
std::unique_ptr<train::Observer> unrestored_random(std::int64_t first) {
  return made<UnrestoredRandom>(first);
}
std::unique_ptr<train::Observer> stale_rows(std::int64_t first) { return made<StaleRows>(first); }
std::unique_ptr<train::Observer> swapped_heads(std::int64_t first) {
  return made<SwappedHeads>(first);
}

}  // namespace opbound::trace
