// Which calls a machine may record and start again: those that are the same each time.
#include <gtest/gtest.h>

#include "distributed/train/program.hpp"

namespace opbound::train {
namespace {

/// Our kernels on the host, said to be recordable or not.
class Declared final : public Provider {
 public:
  explicit Declared(bool is_replayable) : is_replayable_(is_replayable) {}

  std::string name() const override { return own_->name(); }
  std::string version() const override { return own_->version(); }
  std::string device() const override { return own_->device(); }
  std::vector<std::pair<std::string, std::string>> environment() const override { return {}; }
  Contract contract(const Op& op, std::vector<int> variants) const override {
    return own_->contract(op, std::move(variants));
  }
  void run(const Op& op, const Call& call) const override { own_->run(op, call); }
  bool is_replayable() const override { return is_replayable_; }

 private:
  std::unique_ptr<Provider> own_ = own_host_provider();
  bool is_replayable_;
};

/// Host memory, and the keys under which it was asked to replay.
class Recorder final : public Machine {
 public:
  explicit Recorder(bool is_replayable) : own_(is_replayable) {}

  const Provider& own() const override { return own_; }
  std::byte* allocate(std::int64_t bytes) override { return host_->allocate(bytes); }
  void write(void* there, const void* here, std::int64_t bytes) override {
    host_->write(there, here, bytes);
  }
  void read(void* here, const void* there, std::int64_t bytes) override {
    host_->read(here, there, bytes);
  }
  void copy(void* to, const void* from, std::int64_t bytes) override {
    host_->copy(to, from, bytes);
  }
  void run(const Provider& provider, const Op& op, const Call& call) override {
    host_->run(provider, op, call);
  }
  void wait() override {}
  std::size_t mark() override { return host_->mark(); }
  double ms_between(std::size_t begin, std::size_t end) override {
    return host_->ms_between(begin, end);
  }
  void replay(std::uint64_t key, const std::function<void()>& start) override {
    keys.push_back(key);
    start();
  }

  std::vector<std::uint64_t> keys;

 private:
  std::unique_ptr<Machine> host_ = host_machine();
  Declared own_;
};

/// One call of an op of 8 numbers, ready to run; `input` is what it reads.
struct OneCall {
  explicit OneCall(const char* op, bool is_replayable = true) : machine(is_replayable) {
    const bool is_dropout = std::string_view(op) == "dropout";
    const Ref x =
        tape.hold({"x", Element::fp32, is_dropout ? Shape{1, 8} : Shape{8}, Life::input, -1});
    const auto made = is_dropout
                          ? tape.call({op}, op, {{"rows", 1}, {"n", 8}}, {{"x", x}}, {{"p", 0.5}})
                          : tape.call({op}, op, {{"n", 8}}, {{"x", x}});
    const Ref y = tape.hold({"y", Element::fp32, x.size, Life::result, -1});
    tape.keep(made.at("y"), y);
    std::byte* const in = machine.allocate(32);
    std::byte* const out = machine.allocate(32);
    program = std::make_unique<Program>(
        tape, machine, [=](int value) { return value == x.value ? in : out; }, providers);
  }
  std::size_t replays_of(int runs, const Program::Enter& enter = {}) {
    for (int i = 0; i < runs; ++i) program->run(7, enter);
    return machine.keys.size();
  }

  Policy policy;
  Recorder machine;
  ProviderTable providers{machine, {}};
  Tape tape{policy};
  std::unique_ptr<Program> program;
};

TEST(Replay, CallsThatAreTheSameEachTimeHaveOneKey) {
  OneCall one("gelu");
  EXPECT_EQ(one.replays_of(3), 3U);
  EXPECT_EQ(one.machine.keys[0], one.machine.keys[1]);
  EXPECT_EQ(one.machine.keys[1], one.machine.keys[2]);
  OneCall other("gelu");
  other.replays_of(1);
  EXPECT_NE(other.machine.keys[0], one.machine.keys[0]);
}

TEST(Replay, GradientsElsewhereHaveAnotherKey) {
  OneCall one("gelu");
  one.replays_of(1);
  std::byte place{};
  one.program->move_gradients(&place);
  one.replays_of(1);
  EXPECT_NE(one.machine.keys[0], one.machine.keys[1]);
}

TEST(Replay, WhatChangesIsStartedEachTime) {
  EXPECT_EQ(OneCall("dropout").replays_of(3), 0U) << "another seed in each run";
  EXPECT_EQ(OneCall("gelu", false).replays_of(3), 0U) << "a provider that cannot";
  EXPECT_EQ(OneCall("gelu").replays_of(3, [](int) {}), 0U) << "weights that are gathered";
  OneCall set("gelu");
  set.program->set("gelu", "approximate", std::string("none"));
  EXPECT_EQ(set.replays_of(3), 0U) << "an attribute that is set";
}

}  // namespace
}  // namespace opbound::train
