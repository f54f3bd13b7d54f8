// A tape in fp64: its values are those of a run in fp64, its derivatives what difference quotients
// approach, and with a run's errors in it, it is that run.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "distributed/trace/replay.hpp"
#include "ops/hash.hpp"
#include "tests/attributed.hpp"

namespace opbound::trace {
namespace {

using namespace train;

/// Every choice of a model and of what its backward pass computes again, each once.
std::vector<TrainingSpec> specs() {
  std::vector<TrainingSpec> all(6, tiny("bf16"));
  all[0].model.positions = Positions::rotary;
  all[1].model.norm = Norm::rms_norm;
  all[1].model.biases = false;
  all[2].model.activation = Activation::swiglu;
  all[2].policy.checkpointing = Checkpointing::attention;
  all[3].model.tied_head = false;
  all[3].model.activation = Activation::gelu_tanh;
  all[3].policy.checkpointing = Checkpointing::all;
  all[4].policy.dropout = 0.1;
  all[5] = tiny("fp8");
  return all;
}

/// The values of a captured micro-batch, beside those of the exact run.
struct Both {
  Values local, values;

  Both(const RunView& run, const ExactTape& exact, Captured& c) {
    local = values = exact.no_values();
    for (std::size_t v = 0; v < values.size(); ++v) {
      const Value& value = run.tape.values()[v];
      if (value.life == Life::parameter)
        values[v] = c.master[static_cast<std::size_t>(value.parameter)];
      else if (value.life == Life::input)
        values[v] = c.values[v];
      else
        local[v] = values[v] = exact.zeros(static_cast<int>(v));
    }
    const auto in = [](Values& where, int v) -> Tensor& {
      return where[static_cast<std::size_t>(v)];
    };
    for (std::size_t i = 0; i < exact.calls(); ++i) {
      exact.run(i, c.attributes[i], [&](int v, bool is_written) -> Tensor& {
        return in(is_written ? local : c.values, v);
      });
      exact.run(i, c.attributes[i], [&](int v, bool) -> Tensor& { return in(values, v); });
    }
  }
};

double direction(std::int64_t i) { return element_hash(i, 7) % 2 == 0 ? 1 : -1; }

class Tapes : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Choices, Tapes, testing::Range<std::size_t>(0, 6));

/// The loss where h times +-1 is added to all elements of one output.
double loss_beside(const ExactTape& exact, Captured& c, Values& values, std::size_t call,
                   const Ref& r, double h) {
  Values zeros = exact.no_values(), moved = exact.no_values();
  for (std::size_t t = 0; t < exact.tape().steps()[call].tensors.size(); ++t) {
    const int v = exact.tape().steps()[call].tensors[t].value;
    if (v < 0) continue;
    zeros[static_cast<std::size_t>(v)] = exact.zeros(v);
    moved[static_cast<std::size_t>(v)] = exact.zeros(v);
  }
  const TensorView view = view_of(moved[static_cast<std::size_t>(r.value)], r);
  for (std::int64_t i = 0; i < view.count(); ++i) view.set(i, h * direction(i));
  Replay replay({exact, c.attributes, moved, zeros, values});
  std::vector<bool> with_error(exact.calls());
  with_error[call] = true;
  replay.run(with_error);
  return replay.value(exact.loss()).at(0);
}

// Central quotients, extrapolated to h = 0 (Richardson 1911): they err by the fourth power of h, so
// a step of halving tells what the next one errs by, beside the rounding of two losses.
TEST_P(Tapes, AdjointsAreWhatDifferenceQuotientsApproach) {
  with_captured(specs()[GetParam()], [](const RunView& run, const ExactTape& exact, Captured& c) {
    Both both(run, exact, c);
    Values adjoints = exact.adjoints(c.attributes, both.values, both.values);
    std::size_t checked = 0;
    for (std::size_t i = 0; i < exact.forward_calls(); ++i) {
      const Step& step = run.tape.steps()[i];
      for (std::size_t t = 0; t < step.tensors.size(); ++t) {
        const Ref& r = step.tensors[t];
        if (!r.exists() || !step.spec.op->forward.tensors[t].is_judged()) continue;
        Tensor& all = adjoints[static_cast<std::size_t>(r.value)];
        if (all.count() == 0) continue;
        const TensorView a = view_of(all, r);
        double expected = 0;
        for (std::int64_t e = 0; e < a.count(); ++e) expected += a.at(e) * direction(e);
        const auto loss = [&](double h) { return loss_beside(exact, c, both.values, i, r, h); };
        const auto quotient = [&](double h) { return (loss(h) - loss(-h)) / (2 * h); };
        const auto extrapolated = [&](double h) { return (4 * quotient(h / 2) - quotient(h)) / 3; };
        const double h = std::ldexp(1, -9), coarse = extrapolated(h), fine = extrapolated(h / 2);
        // Each loss carries the rounding of a forward pass, of which a row's sums are the longest.
        const double rounding = std::ldexp(1, -53) * static_cast<double>(256 * 24) *
                                both.values[static_cast<std::size_t>(exact.loss())].at(0) / h;
        EXPECT_LE(std::abs(fine - expected), std::abs(fine - coarse) + rounding)
            << i << " " << step.part << " " << step.layer << ": " << expected;
        ++checked;
      }
    }
    EXPECT_GT(checked, 20U);
  });
}

// u^2 of the run's least format against u of fp64: an error that is made in a call of the exact
// tape is 2^-45 of one of bf16; sums of up to 2^10 terms make it no larger than 2^-35 of those.
TEST_P(Tapes, WithAllErrorsTheExactTapeIsTheRun) {
  with_captured(specs()[GetParam()], [](const RunView& run, const ExactTape& exact, Captured& c) {
    Both both(run, exact, c);
    Replay replay({exact, c.attributes, c.values, both.local, both.values});
    for (const Ref& w : run.refs.weights) replay.change_input(w.value);
    replay.run(std::vector<bool>(exact.calls(), true));
    const auto check = [&](int v) {
      const auto place = static_cast<std::size_t>(v);
      double largest = 0, gap = 0;
      for (std::int64_t i = 0; i < c.values[place].count(); ++i) {
        const double low = c.values[place].at(i);
        largest = std::max(largest, std::abs(low - both.values[place].at(i)));
        gap = std::max(gap, std::abs(replay.value(v).at(i) - low));
      }
      EXPECT_GT(largest, 0) << run.tape.values()[place].name;
      EXPECT_LE(gap, std::ldexp(largest, -35)) << run.tape.values()[place].name;
    };
    check(exact.loss());
    for (const Ref& g : run.refs.gradients) check(g.value);
  });
}

TEST(ExactTape, IsARunInFp64BitForBit) {
  with_captured(tiny("fp64"), [](const RunView& run, const ExactTape& exact, Captured& c) {
    Both both(run, exact, c);
    for (const Step& step : run.tape.steps())
      for (std::size_t t = 0; t < step.tensors.size(); ++t) {
        if (!step.tensors[t].exists()) continue;
        if (step.spec.op->pass(step.spec.direction).tensors[t].role == Role::scratch) continue;
        const auto v = static_cast<std::size_t>(step.tensors[t].value);
        for (std::int64_t i = 0; i < c.values[v].count(); ++i)
          ASSERT_EQ(both.values[v].at(i), c.values[v].at(i)) << run.tape.values()[v].name;
      }
  });
}

// The gradients of a trainer whose policy is fp64, from the same master weights and tokens: another
// tape, without casts, whose sums are the same.
TEST(ExactTape, HasTheGradientsOfThePolicyFp64) {
  TrainingSpec low = tiny("bf16");
  with_captured(low, [&](const RunView& run, const ExactTape& exact, Captured& c) {
    Both both(run, exact, c);
    TrainingSpec s = low;
    s.policy = read_policy("fp64");
    class Other final : public Observer {
     public:
      void sample(std::int64_t, std::int64_t, Sample& sample) override { sample.step = 1; }
    } other;
    TrainOptions options;
    options.observers = {&other};
    Trainer trainer(s, options);
    trainer.set_weights(c.master);
    std::vector<Tensor> gradients;
    EXPECT_EQ(trainer.gradients(1, gradients),
              both.values[static_cast<std::size_t>(exact.loss())].at(0));
    for (std::size_t p = 0; p < gradients.size(); ++p) {
      const Tensor& own = both.values[static_cast<std::size_t>(run.refs.gradients[p].value)];
      for (std::int64_t i = 0; i < own.count(); ++i)
        ASSERT_EQ(own.at(i), gradients[p].at(i)) << run.layout.parameters()[p].name;
    }
  });
}

}  // namespace
}  // namespace opbound::trace
