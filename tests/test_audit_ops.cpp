// Faults that are planted in one op of a training run: the audit finds them, and names op and
// layer.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/set_attribute.hpp"
#include "tests/audited_run.hpp"

namespace opbound::trace {
namespace {

// ---- faults of one op

struct OpFault {
  const char* name;
  const char* policy;
  const char* part;
  Direction direction;
  int layer;
  const char* op;
  std::function<void(const Step&, Call&)> alter;        ///< or
  std::function<void(const Step&, const Call&)> after;  ///< writes into what came out
};

std::function<void(const Step&, Call&)> setting(const char* attribute,
                                                const AttributeValue& value) {
  return [=](const Step& step, Call& call) {
    set_attribute(*step.spec.op, call.attributes, attribute, value);
  };
}

/// What the kernel has before it stores, cut instead of rounded.
void truncate_output(const Step& step, const Call& call) {
  const TensorView y = view_named(step, call, "d");
  Tensor wide(Element::fp32, Shape(y.size, y.size + y.rank));
  Call again = call;
  again.forward.back() = wide.view();
  step.spec.op->run(again);
  for (std::int64_t i = 0; i < y.count(); ++i) {
    const double x = wide.at(i), nearest = round_to(format_of(y.element), x);
    const double down =
        std::fabs(nearest) > std::fabs(x)
            ? nearest - std::copysign(x == 0 ? 0 : 1, x) * std::ldexp(1.0, std::ilogb(nearest) - 7)
            : nearest;
    y.set(i, round_to(format_of(y.element), down));
  }
}

void swap_columns(const Step& step, const Call& call) {
  const TensorView d = view_named(step, call, "d");
  for (std::int64_t i = 0; i < d.size[0]; ++i) {
    const std::int64_t at = i * d.size[1];
    const double x = d.at(at);
    d.set(at, d.at(at + 1));
    d.set(at + 1, x);
  }
}

void set_one_element(const Step& step, const Call& call) {
  const TensorView da = view_named(step, call, "da");
  da.set(5, 1);
}

void approximate_gelu(const Step&, const Call& call) {  // x sigmoid(1.702 x)
  for (std::int64_t i = 0; i < call.forward[1].count(); ++i) {
    const double x = call.forward[0].at(i);
    call.forward[1].set(i, round_to(fp32, x / (1 + std::exp(-1.702 * x))));
  }
}

void enlarge_norm_gradient(const Step& step, const Call& call) {
  const TensorView dgamma = view_named(step, call, "dgamma");
  for (std::int64_t i = 0; i < dgamma.count(); ++i) dgamma.set(i, 300 * dgamma.at(i));
}

void clamp_loss(const Step& step, const Call& call) {
  const TensorView loss = view_named(step, call, "reduced");
  loss.set(0, std::min(loss.at(0), 5.0));
}

void halve_norm(const Step& step, const Call& call) {
  const TensorView norm = view_named(step, call, "norm");
  norm.set(0, norm.at(0) / 2);
}

void tell_of_infinity(const Step& step, const Call& call) {
  const TensorView found = view_named(step, call, "found_inf");
  store_index(found.element, found.data, 0, 1);
}

std::vector<OpFault> op_faults() {
  constexpr Direction forward = Direction::forward, backward = Direction::backward_local;
  return {
      {"EpsOfANorm", "fp32", "layer_norm", forward, 1, "layer_norm", setting("eps", 1e-3), {}},
      {"TruncationInOneLayer", "bf16", "mlp:matmul", forward, 1, "matmul", {}, truncate_output},
      {"SwappedColumns", "fp32", "matmul", forward, 0, "matmul", {}, swap_columns},
      {"OneElementOfAProduct", "bf16", "matmul", backward, 1, "matmul", {}, set_one_element},
      {"AMaskThatIsUsedAgain",
       "fp32",
       "dropout",
       forward,
       1,
       "dropout",
       setting("seed", std::int64_t{7}),
       {}},
      {"AnotherGelu", "fp32", "mlp:gelu", forward, 0, "gelu", {}, approximate_gelu},
      {"ScaleOfAttention",
       "fp16-scaled",
       "attention",
       forward,
       1,
       "attention",
       setting("scale", 0.25),
       {}},
      {"BackwardOfAttention",
       "fp32",
       "attention",
       backward,
       0,
       "attention",
       setting("scale", 0.25),
       {}},
      {"GradientOfANormTooLarge",
       "fp32",
       "layer_norm",
       backward,
       1,
       "layer_norm",
       {},
       enlarge_norm_gradient},
      {"AClampedLoss", "fp32", "cross_entropy", forward, -1, "cross_entropy", {}, clamp_loss},
      {"BetaOfTheUpdate", "fp32", "adamw", forward, -1, "adamw", setting("beta2", 0.999), {}},
      {"LearningRateOfTheUpdate", "fp32", "adamw", forward, -1, "adamw", setting("lr", 2e-3), {}},
      {"ANormOfHalf", "fp32", "global_norm", forward, -1, "global_norm", {}, halve_norm},
      {"AnInfinityThatIsNotSeen",
       "fp16-scaled",
       "unscale",
       forward,
       -1,
       "unscale",
       {},
       tell_of_infinity},
  };
}

class PlantedOp : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Faults, PlantedOp, testing::Range<std::size_t>(0, op_faults().size()),
                         [](const auto& p) { return std::string(op_faults()[p.param].name); });

TEST_P(PlantedOp, IsFoundAndNamed) {
  const OpFault planted = op_faults()[GetParam()];
  TrainingSpec s = tiny(planted.policy);
  s.steps = 2;
  s.policy.dropout = 0.1;
  PlantedObserver fault;
  const auto is_it = [&](const CallPlace& place, const Step& step) {
    return place.step == 1 && step.part == planted.part && step.layer == planted.layer &&
           step.spec.direction == planted.direction;
  };
  if (planted.alter)
    fault.alter = [&](const CallPlace& place, const Step& step, Call& call) {
      if (is_it(place, step)) planted.alter(step, call);
    };
  else
    fault.after = [&](const CallPlace& place, const Step& step, const Call& call) {
      if (is_it(place, step)) planted.after(step, call);
    };
  const std::vector<Finding> findings = audited(s, every_step(), &fault).findings;
  EXPECT_TRUE(has(findings, [&](const Finding& f) {
    return f.check == "op" && f.step == 1 && f.op == planted.op && f.layer == planted.layer &&
           f.part == planted.part && f.direction == name_of(planted.direction);
  }));
  for (const Finding& f : findings) {
    EXPECT_EQ(f.step, 1) << text_of(f);
    EXPECT_TRUE(f.check != "op" || (f.op == planted.op && f.layer == planted.layer)) << text_of(f);
  }
}

TEST(Audit, OneWrongElementOfAProductIsNamed) {
  TrainingSpec s = tiny("fp32");
  s.steps = 1;
  s.micro_batches = 1;
  PlantedObserver fault;
  fault.after = [](const CallPlace&, const Step& step, const Call& call) {
    if (step.part != "head" || step.spec.direction != Direction::forward) return;
    const TensorView d = view_named(step, call, "d");
    d.set(1000, d.at(1000) + 10);
  };
  const std::vector<Finding> findings = audited(s, every_step(), &fault).findings;
  ASSERT_EQ(findings.size(), 1U) << all_texts(findings);
  EXPECT_EQ(findings[0].index, 1000);
  EXPECT_EQ(findings[0].tensor, "d");
  EXPECT_GT(findings[0].got, findings[0].high + 9);
}

TEST(Audit, ALearningRateThatIsNotTheSchedulesIsFound) {
  /// Shows an audit a run of another schedule.
  class Shown final : public train::Observer {
   public:
    Shown(Audit& audit, const TrainingSpec& spec) : audit_(audit), spec_(spec) {}
    void begin(const train::RunView& r) override {
      audit_.begin({spec_, r.layout, r.tape, r.refs, r.sampler, r.machine, r.ranks, r.providers,
                    r.owned, r.arrays});
    }

   private:
    Audit& audit_;
    const TrainingSpec& spec_;
  };
  /// All events but `begin`.
  class Rest final : public train::Observer {
   public:
    explicit Rest(Audit& a) : a_(a) {}
    void begin_step(std::int64_t s) override { a_.begin_step(s); }
    void sample(std::int64_t s, std::int64_t m, train::Sample& x) override { a_.sample(s, m, x); }
    bool sees_calls(std::int64_t s, std::int64_t m) override { return a_.sees_calls(s, m); }
    void before_call(const CallPlace& p, const Step& s, const Call& c) override {
      a_.before_call(p, s, c);
    }
    void after_call(const CallPlace& p, const Step& s, const Call& c) override {
      a_.after_call(p, s, c);
    }
    void gradient(std::int64_t s, std::int64_t m, std::byte* g) override { a_.gradient(s, m, g); }
    void reduced(std::int64_t s) override { a_.reduced(s); }
    void normed(std::int64_t s, std::byte* n, std::int64_t c, Element e) override {
      a_.normed(s, n, c, e);
    }
    void updated(const train::StepResult& r) override { a_.updated(r); }

   private:
    Audit& a_;
  };
  const TrainingSpec s = tiny("fp32");
  TrainingSpec other = s;
  other.schedule.lr = s.schedule.lr * 2;
  Audit audit(every_step());
  Shown shown(audit, other);
  Rest rest(audit);
  train::TrainOptions how;
  how.observers = {&shown, &rest};
  train::train(s, how);
  expect_only(audit.findings(), "learning rate");
}

}  // namespace
}  // namespace opbound::trace
