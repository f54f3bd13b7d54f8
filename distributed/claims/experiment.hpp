// What can be run for a claim: each experiment is a function of its parameters that gives figures.
// It knows nothing of what a claim says, and the claim's tests nothing of how it is done.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "distributed/claims/claim.hpp"

namespace opbound::claims {

struct Trajectory;

/// What experiments share: where they run, and training runs that several of them look at.
struct Laboratory {
  std::string device = "cpu";
  std::function<void(const std::string&)> on_note{};  ///< one line of progress
  std::map<std::string, std::shared_ptr<const Trajectory>> trajectories{};

  void note(const std::string& line) const {
    if (on_note) on_note(line);
  }
};

/// A parameter, and what it is where the claim does not say; its type is that of this value.
struct Parameter {
  std::string_view name;
  AttributeValue left_out;
};

/// The parameters of a run.
class Given {
 public:
  explicit Given(const Named<AttributeValue>& parameters) : parameters_(&parameters) {}

  std::string text(std::string_view name) const { return get<std::string>(name); }
  double number(std::string_view name) const { return get<double>(name); }
  std::int64_t whole(std::string_view name) const { return get<std::int64_t>(name); }
  bool flag(std::string_view name) const { return get<bool>(name); }
  /// The words of a text between blanks.
  std::vector<std::string> words(std::string_view name) const;

 private:
  template <class T>
  T get(std::string_view name) const {
    for (const auto& [key, value] : *parameters_)
      if (key == name) return std::get<T>(value);
    detail::require(false, "an experiment has the parameters that it reads");
    return {};
  }

  const Named<AttributeValue>* parameters_;
};

struct Experiment {
  std::string_view name;
  std::string_view what;  ///< one line for a reader
  std::vector<Parameter> parameters;
  /// Throws Unavailable, with the reason, where this machine lacks what it needs; InputError for a
  /// parameter that makes no sense.
  std::function<Measured(const Given&, Laboratory&)> run;
};

/// All of them, by topic. The lists are in experiments_<topic>.cpp.
std::span<const Experiment> all_experiments();

/// The one of this name, or null.
const Experiment* find_experiment(std::string_view name);

using Experiments = std::vector<Experiment>;
Experiments arithmetic_experiments();  ///< numbers of a text against one another
Experiments format_experiments();      ///< formats, conversions, scales, small constants
Experiments operator_experiments();    ///< one op against its certified reference
Experiments collective_experiments();  ///< ranks, orders, streams
Experiments random_experiments();      ///< masks, seeds, samples
Experiments training_experiments();    ///< training runs side by side
Experiments monitor_experiments();     ///< what an alarm sees of healthy and faulty runs
Experiments record_experiments();      ///< committed records of other machines

}  // namespace opbound::claims
