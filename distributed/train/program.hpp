// A tape made ready to run: every call with its addresses, its memory shared by what is not needed
// at the same time.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "distributed/train/machine.hpp"
#include "distributed/train/tape.hpp"

namespace opbound::train {

/// Makes a provider from the name that a policy gives it, a plug-in's or its file, for the machine
/// that has this place for it.
using MakeProvider = std::function<std::unique_ptr<Provider>(
    const std::string& name, const std::optional<PluginPlace>& place)>;

/// Whose kernels a run calls: each is made once, when it is first named.
class ProviderTable {
 public:
  /// `make`: of all names but "own" and none; where there is none, they are Unavailable.
  ProviderTable(Machine& machine, MakeProvider make) : machine_(&machine), make_(std::move(make)) {}

  /// Throws Unavailable for what is not here.
  const Provider& named(const std::string& name);
  /// Name and version of each that was asked for, own first.
  std::vector<std::pair<std::string, std::string>> versions() const;

 private:
  Machine* machine_;
  MakeProvider make_;
  std::map<std::string, std::unique_ptr<Provider>> made_;
};

/// Where each temporary value lies in one arena: what is alive at the same time does not overlap.
struct Placement {
  std::vector<std::int64_t> offset_bytes;  ///< by value; -1: not a temporary, or never written
  std::int64_t arena_bytes = 0;
};
Placement place_temporaries(const Tape& tape);

/// What is told of every call of a program, in the order in which they are started.
class CallWatch {
 public:
  CallWatch() = default;
  CallWatch(const CallWatch&) = delete;
  CallWatch& operator=(const CallWatch&) = delete;
  virtual ~CallWatch() = default;
  /// The call as it shall be.
  virtual void before(std::size_t index, const Step& step, const Call& call) = 0;
  /// What is started in its place.
  virtual void alter(std::size_t index, const Step& step, Call& call) = 0;
  virtual void after(std::size_t index, const Step& step, const Call& call) = 0;
};

class Program {
 public:
  /// Where what is not temporary lies: the address of a value of the tape.
  using Address = std::function<std::byte*(int value)>;

  /// Resolves every call once. `gradients`: where the addresses of gradients count from. Throws
  /// Unavailable for a provider that is not here, InputError for one without such a kernel.
  Program(const Tape& tape, Machine& machine, const Address& address, ProviderTable& providers,
          std::byte* gradients = nullptr);

  /// Called before the first of a row of calls of one layer.
  using Enter = std::function<void(int layer)>;

  /// Starts all calls in order; at once where nobody looks on and they are the same as before.
  /// `random_key` is what dropout's bits hang on, beside the place of
  /// the call in the tape.
  void run(std::uint64_t random_key, const Enter& enter = {}, CallWatch* watch = nullptr);

  /// Gradients of parameters lie there from now on: their addresses move alike.
  void move_gradients(std::byte* base);

  /// Sets an attribute of every call of the op from now on.
  void set(std::string_view op, std::string_view attribute, const AttributeValue& value);

  std::int64_t arena_bytes() const { return arena_bytes_; }

 private:
  void start(std::uint64_t random_key, const Enter& enter, CallWatch* watch);
  /// Does each run start the same calls?
  bool is_same_each_time() const;

  struct Bound {
    const Step* step;
    const Provider* provider;
    Call call;
  };

  Machine* machine_;
  std::vector<Bound> calls_;
  std::vector<std::byte*> base_;         ///< by value
  std::vector<TensorView*> gradients_;   ///< of the calls
  std::byte* gradients_base_ = nullptr;  ///< where they were last moved to
  std::int64_t arena_bytes_ = 0;
  std::uint64_t key_ = 0;      ///< of the calls as they are, for the machine to tell them by
  bool has_settings_ = false;  ///< set() was called: attributes change
};

}  // namespace opbound::train
