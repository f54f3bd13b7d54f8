// Runs that are audited, for tests: what was found, and what ought to be.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "distributed/trace/audit.hpp"
#include "distributed/train/trainer.hpp"
#include "tests/planted_observer.hpp"
#include "tests/tiny_training.hpp"

namespace opbound::trace {

using train::CallPlace;
using train::Checkpointing;
using train::Phase;
using train::Sharding;
using train::Step;
using train::TrainingSpec;

inline TrainingSpec tiny(const std::string& policy) {
  TrainingSpec s = tiny_training(policy);
  s.micro_batches = 2;
  return s;
}

inline AuditOptions every_step() {
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

inline Audited audited(const TrainingSpec& spec, AuditOptions options = every_step(),
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

inline std::string all_texts(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& f : findings) text += text_of(f) + "\n";
  return text.substr(0, 4000);
}

/// Is nothing found, and does every record say so?
inline void expect_clean(const Audited& a) {
  EXPECT_TRUE(a.findings.empty()) << all_texts(a.findings);
  EXPECT_GT(a.records.size(), 0U);
  for (const Record& r : a.records) {
    EXPECT_TRUE(r.verdict == Verdict::within || r.verdict == Verdict::vacuous) << print_record(r);
    ASSERT_TRUE(r.in_situ.has_value());
  }
}

/// Of findings, is one like this?
inline testing::AssertionResult has(const std::vector<Finding>& findings,
                                    const std::function<bool(const Finding&)>& like) {
  if (std::any_of(findings.begin(), findings.end(), like)) return testing::AssertionSuccess();
  return testing::AssertionFailure() << findings.size() << " findings:\n" << all_texts(findings);
}

inline void multiply(Element e, std::byte* data, std::int64_t first, std::int64_t count,
                     double by) {
  for (std::int64_t i = first; i < first + count; ++i)
    store(e, data, i, round_to(format_of(e), load(e, data, i) * by));
}

inline const std::vector<TensorView>& views(const Call& call) {
  return call.direction == Direction::forward ? call.forward : call.backward;
}

inline TensorView view_named(const Step& step, const Call& call, std::string_view name) {
  const auto& tensors = step.spec.op->pass(call.direction).tensors;
  for (std::size_t t = 0; t < tensors.size(); ++t)
    if (tensors[t].name == name) return views(call)[t];
  ADD_FAILURE() << name;
  return {};
}

inline std::vector<Finding> findings_of(TrainingSpec s, PlantedObserver& fault) {
  s.steps = 3;
  return audited(s, every_step(), &fault).findings;
}

/// All findings are of this check, and there are some.
inline void expect_only(const std::vector<Finding>& findings, const char* check) {
  EXPECT_FALSE(findings.empty());
  for (const Finding& f : findings) EXPECT_EQ(f.check, check) << text_of(f);
}

}  // namespace opbound::trace
