// The audit of a run: clean runs in which nothing is found, and planted faults that are found and
// named.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

#include "distributed/trace/audit.hpp"
#include "distributed/train/trainer.hpp"
#include "ops/set_attribute.hpp"
#include "tests/planted_observer.hpp"
#include "tests/thread_ranks.hpp"

namespace opbound::trace {
namespace {

using train::CallPlace;
using train::Checkpointing;
using train::Phase;
using train::Sharding;
using train::Step;
using train::TrainingSpec;

TrainingSpec tiny(const std::string& policy) {
  TrainingSpec s;
  s.model.name = "tiny";
  s.model.layers = 2;
  s.model.heads = 2;
  s.model.width = 16;
  s.model.hidden = 32;
  s.model.context = 12;
  s.policy = train::read_policy(policy);
  s.data = OPBOUND_SOURCE_DIR "/suites/training/text.txt";
  s.steps = 3;
  s.micro_batches = 2;
  s.sequences = 2;
  return s;
}

AuditOptions every_step() {
  AuditOptions o;
  o.every = 1;
  return o;
}

struct Audited {
  std::vector<Finding> findings;
  std::vector<Record> records;
  AuditSummary summary;
  std::uint64_t hash = 0;
};

Audited audited(const TrainingSpec& spec, AuditOptions options = every_step(),
                PlantedObserver* fault = nullptr) {
  Audited a;
  options.on_record = [&](const Record& r) { a.records.push_back(r); };
  Audit audit(std::move(options));
  train::TrainOptions how;
  if (fault != nullptr) how.observers.push_back(fault);
  how.observers.push_back(&audit);
  a.hash = train::train(spec, how).hash;
  a.findings = audit.findings();
  a.summary = audit.summary();
  return a;
}

std::string all_texts(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& f : findings) text += text_of(f) + "\n";
  return text.substr(0, 4000);
}

/// Is nothing found, and does every record say so?
void expect_clean(const Audited& a) {
  EXPECT_TRUE(a.findings.empty()) << all_texts(a.findings);
  EXPECT_GT(a.records.size(), 0U);
  for (const Record& r : a.records) {
    EXPECT_TRUE(r.verdict == Verdict::within || r.verdict == Verdict::vacuous) << print_record(r);
    ASSERT_TRUE(r.in_situ.has_value());
  }
}

// ---- clean runs

class Clean : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Policies, Clean,
                         testing::Values("fp32", "fp32-reproducible", "bf16", "fp16-scaled", "fp8",
                                         "bf16-mlp32", "tf32", "fp64"));

TEST_P(Clean, NothingIsFound) {
  TrainingSpec s = tiny(GetParam());
  s.policy.dropout = 0.1;
  s.policy.checkpointing = Checkpointing::all;
  const Audited a = audited(s);
  expect_clean(a);
  EXPECT_EQ(a.summary.steps, 3);
  EXPECT_EQ(a.hash, train::train(s, {}).hash) << "who only looks changes nothing";
}

TEST(FullAudit, NothingIsFoundInNano) {
  for (const char* policy :
       {"fp32", "fp32-reproducible", "bf16", "fp16-scaled", "fp8", "bf16-mlp32"}) {
    TrainingSpec s = train::read_training(OPBOUND_SOURCE_DIR "/suites/training/nano.toml");
    s.policy = train::read_policy(policy);
    s.policy.dropout = 0.1;
    s.policy.checkpointing = Checkpointing::all;
    s.steps = 12;
    AuditOptions options;
    options.every = 5;
    options.steps = {11};
    const Audited a = audited(s, options);
    expect_clean(a);
    EXPECT_EQ(a.summary.steps, 4) << policy;
  }
}

TEST(Audit, EveryElementOfAStepHoldsItsBound) {
  TrainingSpec s = tiny("bf16");
  s.policy.dropout = 0.1;
  s.steps = 1;
  s.micro_batches = 1;
  AuditOptions options = every_step();
  options.share.certified = true;
  expect_clean(audited(s, options));
}

TEST(Audit, EveryKindOfModelIsCleanToo) {
  for (int choice = 0; choice < 5; ++choice) {
    TrainingSpec s = tiny("fp16-scaled");
    s.steps = 1;
    if (choice == 0) s.model.positions = train::Positions::rotary;
    if (choice == 1) s.model.norm = train::Norm::rms_norm;
    if (choice == 1) s.model.biases = false;
    if (choice == 2) s.model.activation = train::Activation::swiglu;
    if (choice == 3) s.model.tied_head = false;
    if (choice == 3) s.model.activation = train::Activation::gelu_tanh;
    if (choice == 4) s.policy.checkpointing = Checkpointing::attention;
    if (choice == 4) s.policy.stored_input = bf16;
    expect_clean(audited(s));
  }
}

TEST(Audit, TheSameRunGivesTheSameRecords) {
  const TrainingSpec s = tiny("bf16");
  const Audited a = audited(s), b = audited(s);
  ASSERT_EQ(a.records.size(), b.records.size());
  for (std::size_t i = 0; i < a.records.size(); ++i)
    EXPECT_EQ(to_json(a.records[i]), to_json(b.records[i]));
}

TEST(Audit, StepsAreThoseThatWereChosenAndThoseThatWereAskedFor) {
  TrainingSpec s = tiny("fp32");
  s.steps = 6;
  Audit audit({4, {3}, {}, 1, {}, {}});
  PlantedObserver asks;
  asks.at_end = [&](const train::StepResult& r) {
    if (r.step == 0) audit.audit_next_step();
  };
  train::TrainOptions how;
  how.observers = {&asks, &audit};
  train::train(s, how);
  EXPECT_EQ(audit.summary().steps, 4) << "0, 1, 3 and 4";
  EXPECT_EQ(audit.summary().other_steps, 2);
}

// ---- ranks

/// A rank's fault, if it has one, and the findings that every rank knows in the end.
using FaultOfRank = std::function<void(std::int32_t rank, PlantedObserver&)>;

std::vector<std::vector<Finding>> audited_on(std::int32_t ranks, const TrainingSpec& spec,
                                             const FaultOfRank& plant) {
  Post post;
  std::vector<std::vector<Finding>> findings(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (std::int32_t r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      PlantedObserver fault;
      if (plant) plant(r, fault);
      Audit audit(every_step());
      train::TrainOptions options;
      options.observers = {&fault, &audit};
      options.join = [&, r] {
        return host_collectives(std::make_unique<ThreadRank>(post, r, ranks), "threads");
      };
      train::train(spec, options);
      findings[static_cast<std::size_t>(r)] = audit.findings();
    });
  for (std::thread& t : threads) t.join();
  return findings;
}

TEST(Audit, RanksAreCleanUnderEverySharding) {
  for (const char* policy : {"fp32-reproducible", "bf16"})
    for (const Sharding sharding :
         {Sharding::dp, Sharding::fsdp, Sharding::zero3_fp32, Sharding::zero3_offload}) {
      TrainingSpec s = tiny(policy);
      s.steps = 2;
      s.sharding = sharding;
      if (policy == std::string("bf16")) s.policy.reduction = bf16;
      for (const auto& findings : audited_on(2, s, {}))
        EXPECT_TRUE(findings.empty())
            << policy << " " << train::sharding_names[static_cast<std::size_t>(sharding)] << "\n"
            << all_texts(findings);
    }
}

/// Of findings, is one like this?
testing::AssertionResult has(const std::vector<Finding>& findings,
                             const std::function<bool(const Finding&)>& like) {
  if (std::any_of(findings.begin(), findings.end(), like)) return testing::AssertionSuccess();
  return testing::AssertionFailure() << findings.size() << " findings:\n" << all_texts(findings);
}

void multiply(Element e, std::byte* data, std::int64_t first, std::int64_t count, double by) {
  for (std::int64_t i = first; i < first + count; ++i)
    store(e, data, i, round_to(format_of(e), load(e, data, i) * by));
}

TEST(Audit, ARankThatReadsStaleWeightsIsNamedOnAllRanks) {
  TrainingSpec s = tiny("fp32");
  s.steps = 2;
  s.sharding = Sharding::fsdp;
  const FaultOfRank plant = [](std::int32_t rank, PlantedObserver& fault) {
    if (rank != 1) return;
    fault.before = [](const CallPlace& place, const Step& step, const Call& call) {
      if (place.step != 1 || step.layer != 1 || step.part != "mlp:matmul") return;
      if (step.spec.direction != Direction::forward || step.spec.sizes[1] != 32) return;
      const TensorView& b = call.forward[1];
      multiply(b.element, static_cast<std::byte*>(b.data), 0, b.count(), 0.5);
    };
  };
  for (const auto& findings : audited_on(2, s, plant))
    EXPECT_TRUE(has(findings, [](const Finding& f) {
      return f.check == "weights" && f.rank == 1 && f.step == 1 && f.layer == 1 &&
             f.parameter == "h.1.mlp.c_fc.weight";
    }));
}

TEST(Audit, ANormOfOneRankInPlaceOfAllIsFound) {
  TrainingSpec s = tiny("fp32");
  s.steps = 1;
  s.sharding = Sharding::fsdp;
  const FaultOfRank plant = [](std::int32_t rank, PlantedObserver& fault) {
    fault.at_norms = [rank](std::int64_t, std::byte* norms, std::int64_t count, Element e) {
      const std::int64_t other = rank == 0 ? count / 2 : 0;
      multiply(e, norms, other, count / 2, 0);
    };
  };
  for (const auto& findings : audited_on(2, s, plant))
    for (const std::int64_t rank : {0, 1})
      EXPECT_TRUE(
          has(findings, [&](const Finding& f) { return f.check == "norm" && f.rank == rank; }));
}

TEST(Audit, ARankWhoseGradientWasNotAddedIsFound) {
  TrainingSpec s = tiny("fp32");
  s.steps = 1;
  const FaultOfRank plant = [](std::int32_t rank, PlantedObserver& fault) {
    if (rank != 1) return;
    fault.at_reduced = [&fault](std::int64_t) {
      const train::Range& r = fault.run->layout.parameter(0);
      multiply(Element::fp32, fault.run->arrays.gradient, r.begin, r.count(), 0.5);
    };
  };
  for (const auto& findings : audited_on(2, s, plant))
    EXPECT_TRUE(has(findings, [](const Finding& f) {
      return f.check == "gradient sum" && f.rank == 1 && f.parameter == "wte.weight";
    }));
}

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

const std::vector<TensorView>& views(const Call& call) {
  return call.direction == Direction::forward ? call.forward : call.backward;
}

TensorView view_named(const Step& step, const Call& call, std::string_view name) {
  const auto& tensors = step.spec.op->pass(call.direction).tensors;
  for (std::size_t t = 0; t < tensors.size(); ++t)
    if (tensors[t].name == name) return views(call)[t];
  ADD_FAILURE() << name;
  return {};
}

std::function<void(const Step&, Call&)> setting(const char* attribute, AttributeValue value) {
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

std::vector<OpFault> op_faults() {
  constexpr Direction forward = Direction::forward, backward = Direction::backward_local;
  return {
      {"EpsOfANorm", "fp32", "layer_norm", forward, 1, "layer_norm", setting("eps", 1e-3), {}},
      {"TruncationInOneLayer", "bf16", "mlp:matmul", forward, 1, "matmul", {}, truncate_output},
      {"SwappedColumns",
       "fp32",
       "matmul",
       forward,
       0,
       "matmul",
       {},
       [](const Step& step, const Call& call) {
         const TensorView d = view_named(step, call, "d");
         for (std::int64_t i = 0; i < d.size[0]; ++i) {
           const std::int64_t at = i * d.size[1];
           const double x = d.at(at);
           d.set(at, d.at(at + 1));
           d.set(at + 1, x);
         }
       }},
      {"OneElementOfAProduct",
       "bf16",
       "matmul",
       backward,
       1,
       "matmul",
       {},
       [](const Step& step, const Call& call) {
         const TensorView da = view_named(step, call, "da");
         da.set(5, 1);
       }},
      {"AMaskThatIsUsedAgain",
       "fp32",
       "dropout",
       forward,
       1,
       "dropout",
       setting("seed", std::int64_t{7}),
       {}},
      {"AnotherGelu",
       "fp32",
       "mlp:gelu",
       forward,
       0,
       "gelu",
       {},
       [](const Step&, const Call& call) {  // x sigmoid(1.702 x)
         for (std::int64_t i = 0; i < call.forward[1].count(); ++i) {
           const double x = call.forward[0].at(i);
           call.forward[1].set(i, round_to(fp32, x / (1 + std::exp(-1.702 * x))));
         }
       }},
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
       [](const Step& step, const Call& call) {
         const TensorView dgamma = view_named(step, call, "dgamma");
         for (std::int64_t i = 0; i < dgamma.count(); ++i) dgamma.set(i, 300 * dgamma.at(i));
       }},
      {"AClampedLoss",
       "fp32",
       "cross_entropy",
       forward,
       -1,
       "cross_entropy",
       {},
       [](const Step& step, const Call& call) {
         const TensorView loss = view_named(step, call, "reduced");
         loss.set(0, std::min(loss.at(0), 5.0));
       }},
      {"BetaOfTheUpdate", "fp32", "adamw", forward, -1, "adamw", setting("beta2", 0.999), {}},
      {"LearningRateOfTheUpdate", "fp32", "adamw", forward, -1, "adamw", setting("lr", 2e-3), {}},
      {"ANormOfHalf",
       "fp32",
       "global_norm",
       forward,
       -1,
       "global_norm",
       {},
       [](const Step& step, const Call& call) {
         const TensorView norm = view_named(step, call, "norm");
         norm.set(0, norm.at(0) / 2);
       }},
      {"AnInfinityThatIsNotSeen",
       "fp16-scaled",
       "unscale",
       forward,
       -1,
       "unscale",
       {},
       [](const Step& step, const Call& call) {
         const TensorView found = view_named(step, call, "found_inf");
         store_index(found.element, found.data, 0, 1);
       }},
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
  EXPECT_NEAR(findings[0].got, findings[0].low + 10, 1e-5);
}

// ---- faults between calls

std::vector<Finding> findings_of(TrainingSpec s, PlantedObserver& fault) {
  s.steps = 3;
  return audited(s, every_step(), &fault).findings;
}

/// All findings are of this check, and there are some.
void expect_only(const std::vector<Finding>& findings, const char* check) {
  EXPECT_FALSE(findings.empty());
  for (const Finding& f : findings) EXPECT_EQ(f.check, check) << text_of(f);
}

TEST(Audit, MemorySoiledBetweenCallsIsFound) {
  PlantedObserver fault;
  fault.before = [](const CallPlace& place, const Step& step, const Call& call) {
    if (place.step != 1 || place.micro_batch != 1 || step.part != "mlp:gelu") return;
    if (step.layer == 1 && step.spec.direction == Direction::backward_local)
      call.backward[0].set(3, 100);
  };
  const auto findings = findings_of(tiny("bf16"), fault);
  expect_only(findings, "producer");
  EXPECT_TRUE(has(findings, [](const Finding& f) {
    return f.layer == 1 && f.op == "gelu" && f.tensor == "x" && f.index == 3 && f.got == 100 &&
           f.micro_batch == 1 && f.step == 1;
  }));
}

TEST(Audit, OtherBitsOnRecomputationAreFound) {
  TrainingSpec s = tiny("fp32");
  s.policy.checkpointing = Checkpointing::all;
  std::int64_t times = 0;
  PlantedObserver fault;
  fault.after = [&](const CallPlace& place, const Step& step, const Call& call) {
    if (place.step != 1 || place.micro_batch != 0 || step.layer != 0) return;
    if (step.part != "mlp:gelu" || step.spec.direction != Direction::forward) return;
    if (++times != 2) return;  // its recomputation
    const TensorView y = call.forward[1];
    const double x = y.at(9);
    y.set(9, std::nextafter(static_cast<float>(x), 1.0F));  // which any bound allows
  };
  const auto findings = findings_of(s, fault);
  EXPECT_TRUE(has(findings, [](const Finding& f) {
    return f.check == "recompute" && f.layer == 0 && f.op == "gelu" && f.step == 1;
  }));
}

TEST(Audit, RandomNumbersOfAnotherMicroBatchAreFound) {
  TrainingSpec s = tiny("fp32");
  s.policy.dropout = 0.1;
  std::uint64_t first = 0;
  PlantedObserver fault;
  fault.at_sample = [&](std::int64_t step, std::int64_t micro_batch, train::Sample& sample) {
    if (step == 0 && micro_batch == 1) first = sample.random_key;
    if (step == 1 && micro_batch == 0) sample.random_key = first;
  };
  const auto findings = findings_of(s, fault);
  expect_only(findings, "seed");
  EXPECT_TRUE(has(findings, [](const Finding& f) {
    return f.layer == 1 && f.op == "dropout" &&
           f.text.find("but that of step 0, micro-batch 1") != std::string::npos;
  }));
}

TEST(Audit, ASlippedSampleIsFound) {
  PlantedObserver fault;
  fault.at_sample = [](std::int64_t step, std::int64_t, train::Sample& sample) {
    if (step == 2) sample.step = 1;
  };
  const auto findings = findings_of(tiny("fp32"), fault);
  expect_only(findings, "tokens");
  EXPECT_EQ(findings.front().step, 2);
}

TEST(Audit, OtherTokensInMemoryAreFound) {
  PlantedObserver fault;
  fault.before = [](const CallPlace& place, const Step& step, const Call& call) {
    if (place.step != 1 || place.index != 0 || place.phase != Phase::model) return;
    ASSERT_EQ(step.spec.op->name, "embedding");
    store_index(Element::int64, call.forward[1].data, 4, 255);
  };
  const auto findings = findings_of(tiny("fp32"), fault);
  expect_only(findings, "tokens");
  EXPECT_EQ(findings.front().index, 4);
}

TEST(Audit, AnotherLossScaleIsFound) {
  PlantedObserver fault;
  fault.before = [](const CallPlace& place, const Step& step, const Call& call) {
    if (place.step != 1 || step.part != "cross_entropy") return;
    if (step.spec.direction == Direction::backward_local)
      multiply(Element::fp32, static_cast<std::byte*>(view_named(step, call, "dreduced").data), 0,
               1, 1.0 / 65536);
  };
  const auto findings = findings_of(tiny("fp16-scaled"), fault);
  expect_only(findings, "loss scale");
  EXPECT_EQ(findings.front().step, 1);
}

TEST(Audit, AGradientThatChangesAfterItsCallIsFound) {
  PlantedObserver fault;
  fault.at_gradient = [&](std::int64_t step, std::int64_t micro_batch, std::byte* flat) {
    if (step != 1 || micro_batch != 1) return;
    const train::Range& r = fault.run->layout.parameter(2);
    store(Element::fp32, flat, r.begin + 1, std::numeric_limits<double>::quiet_NaN());
  };
  TrainingSpec s = tiny("fp32");
  s.optimizer.clip_error_on_nonfinite = false;
  const auto findings = findings_of(s, fault);
  EXPECT_TRUE(has(findings, [&](const Finding& f) {
    return f.check == "producer" && f.micro_batch == 1 && f.index == 1 && std::isnan(f.got) &&
           f.parameter == fault.run->layout.parameters()[2].name;
  }));
}

TEST(Audit, AWrongDivisorIsFound) {
  PlantedObserver fault;
  fault.at_reduced = [&](std::int64_t step) {
    if (step == 1)
      multiply(Element::fp32, fault.run->arrays.gradient, 0, fault.run->layout.count(), 2);
  };
  const auto findings = findings_of(tiny("bf16"), fault);
  expect_only(findings, "gradient sum");
  EXPECT_GE(findings.size(), fault.run->layout.parameters().size() / 2);
}

TEST(Audit, ALossThatIsNotTheMicroBatchesIsFound) {
  std::byte* loss = nullptr;
  PlantedObserver fault;
  fault.after = [&](const CallPlace&, const Step& step, const Call& call) {
    if (step.part == "cross_entropy" && step.spec.direction == Direction::forward)
      loss = static_cast<std::byte*>(view_named(step, call, "reduced").data);
  };
  fault.at_gradient = [&](std::int64_t step, std::int64_t, std::byte*) {
    if (step == 1) multiply(Element::fp32, loss, 0, 1, 0.5);
  };
  const auto findings = findings_of(tiny("fp32"), fault);
  expect_only(findings, "loss");
  EXPECT_EQ(findings.front().step, 1);
}

TEST(Audit, WeightsThatChangeBetweenStepsAreFound) {
  for (const bool at_end : {true, false}) {
    PlantedObserver fault;
    const auto halve = [&](std::int64_t step) {
      if (step == 1)
        for (std::int64_t i = 0; i < 40; ++i)  // kept in 16 bits
          store(Element::fp32, fault.run->arrays.master, i,
                round_to(bf16, load(Element::fp32, fault.run->arrays.master, i)));
    };
    if (at_end)
      fault.at_end = [&](const train::StepResult& r) { halve(r.step); };
    else
      fault.at_step = halve;
    const auto findings = findings_of(tiny("fp32"), fault);
    expect_only(findings, "state");
    EXPECT_EQ(findings.front().tensor, "master weights");
    EXPECT_EQ(findings.front().step, 1);
  }
}

TEST(Audit, AStateThatIsAcceptedIsNoFinding) {
  PlantedObserver fault;
  Audit audit(every_step());
  fault.at_step = [&](std::int64_t step) {
    if (step != 1) return;
    multiply(Element::fp32, fault.run->arrays.v, 0, 10, 2);
    audit.accept_state();
  };
  train::TrainOptions how;
  how.observers = {&fault, &audit};
  train::train(tiny("bf16"), how);
  EXPECT_TRUE(audit.findings().empty()) << all_texts(audit.findings());
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

TEST(Audit, AFindingIsReadBackFromItsLine) {
  Finding f;
  f.check = "op";
  f.step = 3;
  f.rank = 1;
  f.layer = 2;
  f.op = "gelu";
  f.got = std::numeric_limits<double>::infinity();
  f.low = 0x1.23456789abcdep-900;
  f.text = "a \"line\"";
  const Finding g = finding_of(to_json(f));
  EXPECT_EQ(to_json(g), to_json(f));
  EXPECT_EQ(g.low, f.low);
  EXPECT_EQ(g.got, f.got);
  EXPECT_THROW(finding_of("{}"), std::exception);
}

}  // namespace
}  // namespace opbound::trace
