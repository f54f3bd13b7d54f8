// Kernels that remember: what a device's team keeps is what any other team computes again.
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "ops/instantiate/walk.hpp"
#include "ops/layer_norm.hpp"
#include "ops/rms_norm.hpp"
#include "ops/softmax.hpp"
#include "suites/rerun.hpp"
#include "suites/run.hpp"

namespace opbound {
namespace {

/// Keeps values as a device's team does: computed once, when they are remembered, one set of them
/// in the same place. It throws where a kernel asks for what has been forgotten, or while it maps
/// for the element of another lane.
template <class T>
class KeepingTeam : public HostTeam<team_width> {
 public:
  struct Memory {
    std::vector<T> values;
    std::vector<int> set;  ///< which one a value belongs to
    int last = 0;
    std::int64_t mapped = -1;  ///< the element that an action is called for
  };
  explicit KeepingTeam(Memory& memory) : memory_(&memory) {}

  template <class F>
  auto remember(std::int64_t n, F f) const {
    const auto size = static_cast<std::size_t>(n);
    Memory& m = *memory_;
    if (m.values.size() < size) m.values.resize(size), m.set.resize(size);
    const int mine = ++m.last;
    for (std::int64_t i = 0; i < n; ++i) {
      m.mapped = i;
      m.values[static_cast<std::size_t>(i)] = f(i);
      m.set[static_cast<std::size_t>(i)] = mine;
    }
    m.mapped = -1;
    return [&m, mine](std::int64_t i) {
      const auto place = static_cast<std::size_t>(i);
      if (m.set.at(place) != mine) throw std::logic_error("it asks for what has been forgotten");
      if (m.mapped >= 0 && m.mapped % team_width != i % team_width)
        throw std::logic_error("it asks for another lane's element");
      return m.values[place];
    };
  }
  template <class F>
  void map(std::int64_t n, F action) const {
    for (std::int64_t i = 0; i < n; ++i) {
      memory_->mapped = i;
      action(i);
    }
    memory_->mapped = -1;
  }
  template <class F, class Put>
  void store(std::int64_t n, F value, Put put) const {
    map(n, [&](std::int64_t i) { put(i, value(i)); });
  }

 private:
  Memory* memory_;
};

std::vector<std::string> hashes(const Prepared& p, const PassInfo& pass) {
  std::vector<std::string> all;
  for (const TensorSpec& t : pass.tensors)
    if (t.is_written()) {
      const auto found = p.tensors.find(t.name);
      if (found != p.tensors.end()) all.push_back(hash_of(found->second));
    }
  return all;
}

/// How many sets of values the kernels of the suite's quick cases remembered.
template <class Op>
int compare(std::string_view name) {
  const Suite suite =
      read_suite(std::string(OPBOUND_SOURCE_DIR) + "/suites/" + std::string(name) + ".toml");
  int remembered = 0;
  for (const CaseSpec& spec : suite.cases) {
    if (spec.tier != Tier::quick || spec.direction != Direction::forward) continue;
    if (spec.precision.compute != fp32) continue;
    const Prepared ours = prepare(spec), theirs = prepare(spec);
    spec.op->run(ours.call);
    const PlainIo<float> io{opbound::bind(theirs.call.forward)};
    const Problem<Op> problem = detail::problem_of<Op>(theirs.call, spec.variant);
    detail::for_each_part<typename Op::forward>([&]<class Part>() {
      typename KeepingTeam<float>::Memory memory;
      for (std::int64_t b = 0; b < Part::blocks(theirs.call.sizes); ++b)
        Part::template kernel<float>(KeepingTeam<float>(memory), problem, io, b);
      remembered += memory.last;
    });
    const PassInfo& pass = spec.op->pass(spec.direction);
    EXPECT_EQ(hashes(ours, pass), hashes(theirs, pass)) << name << " " << identity(spec);
  }
  return remembered;
}

TEST(Remember, ChangesNoBit) {
  EXPECT_GT(compare<softmax>("softmax"), 100);
  EXPECT_GT(compare<layer_norm>("layer_norm"), 100);
  EXPECT_GT(compare<rms_norm>("rms_norm"), 100);
}

/// The test above would see a kernel that breaks the rules.
TEST(Remember, RefusesWhatHasBeenForgotten) {
  KeepingTeam<float>::Memory memory;
  const KeepingTeam<float> team(memory);
  const auto first = team.remember(3, [](std::int64_t i) { return static_cast<float>(i); });
  const auto second = team.remember(3, [&](std::int64_t i) { return first(i) + 1; });
  EXPECT_EQ(second(2), 3);
  EXPECT_THROW(first(2), std::logic_error);
  team.map(3, [&](std::int64_t i) {
    EXPECT_THROW(second((i + 1) % 3), std::logic_error);
    EXPECT_EQ(second(i), static_cast<float>(i) + 1);
  });
}

}  // namespace
}  // namespace opbound
