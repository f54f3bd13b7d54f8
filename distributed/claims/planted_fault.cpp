#include "distributed/claims/planted_fault.hpp"

#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "distributed/train/trainer.hpp"
#include "ops/format.hpp"
#include "reports/error.hpp"

namespace opbound::claims {
namespace {

using train::RunView;

/// Changes one parameter's numbers, or those of several, in a flat array of the run.
class Planted final : public train::Observer {
 public:
  enum class Place { gradient, weights, micro_batch };
  using Change = std::function<void(std::vector<double>& values, const Shape& shape)>;

  Planted(std::string parameter, Place place, std::int64_t from, bool once, Change change)
      : parameter_(std::move(parameter)),
        place_(place),
        from_(from),
        once_(once),
        change_(std::move(change)) {}

  void begin(const RunView& run) override { run_.emplace(run); }
  void gradient(std::int64_t step, std::int64_t micro_batch, std::byte* flat) override {
    if (place_ == Place::micro_batch && micro_batch == 0)
      apply(step, flat, element_of(run_->spec.policy.gradient));
  }
  void reduced(std::int64_t step) override {
    if (place_ == Place::gradient)
      apply(step, run_->arrays.gradient, element_of(run_->spec.policy.gradient));
  }
  void between_steps(std::int64_t step) override {
    if (place_ == Place::weights)
      apply(step, run_->arrays.master, element_of(run_->spec.policy.master));
  }

 private:
  void apply(std::int64_t step, std::byte* flat, Element e) {
    if (step < from_ || (once_ && step > from_)) return;
    detail::require(run_->is_whole(), "faults are planted on one rank that has everything");
    for (std::size_t p = 0; p < run_->layout.parameters().size(); ++p) {
      const train::ParameterSpec& spec = run_->layout.parameters()[p];
      if (!parameter_.empty() && spec.name.find(parameter_) == std::string::npos) continue;
      Tensor values(e, spec.shape);
      std::byte* at = flat + run_->layout.parameter(p).begin * bytes_of(e);
      run_->machine.read(values.bytes().data(), at,
                         static_cast<std::int64_t>(values.bytes().size()));
      std::vector<double> numbers = values.values();
      change_(numbers, spec.shape);
      for (std::size_t i = 0; i < numbers.size(); ++i)
        values.set(static_cast<std::int64_t>(i), numbers[i]);
      run_->machine.write(at, values.bytes().data(),
                          static_cast<std::int64_t>(values.bytes().size()));
    }
  }

  std::string parameter_;
  Place place_;
  std::int64_t from_;
  bool once_;
  Change change_;
  std::optional<RunView> run_;
};

void scale_by(std::vector<double>& values, double factor) {
  for (double& v : values) v *= factor;
}

/// Columns 0 and 1 of a matrix, turned.
void rotate(std::vector<double>& values, const Shape& shape) {
  const auto columns = static_cast<std::size_t>(shape[1]);
  const double c = std::cos(0.01), s = std::sin(0.01);
  for (std::size_t row = 0; row < values.size(); row += columns) {
    const double a = values[row], b = values[row + 1];
    values[row] = c * a - s * b;
    values[row + 1] = s * a + c * b;
  }
}

}  // namespace

std::unique_ptr<train::Observer> planted_fault(const std::string& name, std::int64_t from) {
  const auto plant = [&](const char* parameter, Planted::Place place, Planted::Change change,
                         bool once = false) {
    return std::make_unique<Planted>(parameter, place, from, once, std::move(change));
  };
  using Values = std::vector<double>;
  if (name.empty()) return nullptr;
  if (name == "drift")
    return plant("h.0.attn.c_attn.bias", Planted::Place::weights, [](Values& v, const Shape&) {
      for (double& x : v) x += 0.0017 / 832;
    });
  if (name == "truncated")
    return plant("", Planted::Place::gradient, [](Values& v, const Shape&) {
      for (double& x : v) x = truncate_to(bf16, x);
    });
  if (name == "rotated") return plant("h.0.attn.c_attn.weight", Planted::Place::gradient, rotate);
  if (name == "large_norm")
    return plant("h.1.ln_1.weight", Planted::Place::gradient,
                 [](Values& v, const Shape&) { scale_by(v, 300); });
  if (name == "late_layer")
    return plant("h.1.", Planted::Place::gradient,
                 [](Values& v, const Shape&) { scale_by(v, 0.75); });
  if (name == "nan")
    return plant(
        "h.1.mlp.c_fc.weight", Planted::Place::micro_batch,
        [](Values& v, const Shape&) { v[17] = std::numeric_limits<double>::quiet_NaN(); }, true);
  throw InputError("", "fault '" + name + "'",
                   "drift, truncated, rotated, large_norm, late_layer or nan");
}

}  // namespace opbound::claims
