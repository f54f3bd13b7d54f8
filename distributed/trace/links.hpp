// What ties the calls of a step together, which no call shows alone: each reads what its producer
// wrote, and what is computed again is what it was.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "distributed/trace/finding.hpp"
#include "distributed/trace/shadow.hpp"
#include "distributed/train/observer.hpp"

namespace opbound::trace {

/// What a value that comes from outside a tape has to hold, as far as that is known.
struct Expected {
  std::string check;   ///< what its finding is called: "tokens", "weights", "mean"
  std::string tensor;  ///< what it is, for a reader
  std::string parameter;
  Shadow what;
};

/// A step's memory, phase by phase.
class Links {
 public:
  using Report = std::function<void(Finding)>;

  /// `report` takes findings, whose step and rank are the caller's to fill in.
  Links(const train::RunView& run, Report report);

  /// Nothing is known of the memory any more; `keep_weights`: but of parameters.
  void forget(bool keep_weights);
  /// By value of the model's tape; and by address, for the other tapes.
  void expect(int value, Expected what) { by_value_[value] = std::move(what); }
  void expect(const std::byte* address, Expected what) { by_address_[address] = std::move(what); }
  bool expects(int value) const { return by_value_.contains(value); }

  /// Reads what the call will read, and compares.
  void before(const train::CallPlace& place, const train::Step& step, const Call& call);
  /// Reads what it wrote.
  void after(const train::CallPlace& place, const train::Step& step, const Call& call);
  /// The call on the copies that are here.
  Call here(const train::CallPlace& place, const train::Step& step, const Call& call) const;
  /// What no later call of the model reads is forgotten.
  void release(const train::CallPlace& place, const train::Step& step);

  /// Of the model's values; null where nothing is known of it.
  const Shadow* value(int value) const { return find(train::Phase::model, value); }
  /// What calls of a phase wrote or read that begins at this address; null where nothing.
  const Shadow* at(train::Phase phase, const std::byte* address) const;

 private:
  struct Entry {
    Shadow shadow;
    const std::byte* base = nullptr;
  };
  using Key = std::pair<train::Phase, int>;

  const Shadow* find(train::Phase phase, int value) const;
  void adopt(const train::CallPlace& place, const train::Step& step, std::size_t tensor,
             const Entry& entry, const Shadow::Runs& news);
  void compare_again(const train::CallPlace& place, const train::Step& step);
  Finding finding(const char* check, const train::CallPlace& place, const train::Step& step,
                  std::size_t tensor) const;
  void find_repetitions();

  const train::RunView& run_;
  Report report_;
  std::map<Key, Entry> entries_;
  std::map<int, Expected> by_value_;
  std::map<const std::byte*, Expected> by_address_;
  std::vector<std::size_t> last_use_;  ///< of the model's values
  std::vector<int> repeats_;           ///< by the model's call: the earlier call that it repeats
  std::vector<char> is_repeated_;
  std::map<std::pair<int, std::size_t>, std::uint64_t> hashes_;  ///< of outputs that come again
};

}  // namespace opbound::trace
