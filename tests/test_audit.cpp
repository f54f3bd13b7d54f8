// The audit of a run: clean runs in which nothing is found, and faults between calls, steps and
// ranks that are found and named. Those of ops: test_audit_ops.cpp.
#include <gtest/gtest.h>

#include <limits>
#include <thread>

#include "tests/audited_run.hpp"
#include "tests/thread_ranks.hpp"

namespace opbound::trace {
namespace {

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

// ---- faults between calls

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
  std::string third;
  fault.at_gradient = [&](std::int64_t step, std::int64_t micro_batch, std::byte* flat) {
    if (step != 1 || micro_batch != 1) return;
    const train::Range& r = fault.run->layout.parameter(2);
    third = fault.run->layout.parameters()[2].name;
    store(Element::fp32, flat, r.begin + 1, std::numeric_limits<double>::quiet_NaN());
  };
  TrainingSpec s = tiny("fp32");
  s.optimizer.clip_error_on_nonfinite = false;
  const auto findings = findings_of(s, fault);
  EXPECT_TRUE(has(findings, [&](const Finding& f) {
    return f.check == "producer" && f.micro_batch == 1 && f.index == 1 && std::isnan(f.got) &&
           f.parameter == third;
  }));
}

TEST(Audit, AWrongDivisorIsFound) {
  PlantedObserver fault;
  std::size_t parameters = 0;
  fault.at_reduced = [&](std::int64_t step) {
    parameters = fault.run->layout.parameters().size();
    if (step == 1)
      multiply(Element::fp32, fault.run->arrays.gradient, 0, fault.run->layout.count(), 2);
  };
  const auto findings = findings_of(tiny("bf16"), fault);
  expect_only(findings, "gradient sum");
  EXPECT_GE(findings.size(), parameters / 2);
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
