// Right kernels, judged by opbound and by the rules of others: what is refused is a false alarm.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "ops/provider.hpp"
#include "reports/power.hpp"
#include "suites/suite.hpp"

namespace opbound::detection {

struct AlarmOptions {
  std::shared_ptr<const Provider> provider{};  ///< whose kernels; none: our own
  std::uint64_t elements = 0;  ///< run further seeds until so many have been checked; 0: one round
  std::int64_t workers = 1;    ///< threads; no count depends on them
  /// Before each case; false: no further one begins.
  std::function<bool()> goes_on = [] { return true; };
  /// After each case, with its op and elements, one call at a time.
  std::function<void(std::string_view op, std::uint64_t elements)> ended = [](std::string_view,
                                                                              std::uint64_t) {};
};

struct Alarms {
  std::vector<AlarmCount> counts;  ///< by op, input class and rule
  std::uint64_t rounds = 0;
  std::uint64_t elements = 0;
  bool is_whole = true;
};

/// Which of input_classes a case belongs to.
std::string_view class_of(const CaseSpec& spec);

/// Is any of its inputs drawn at random, so that another seed is another case?
bool depends_on_seed(const CaseSpec& spec);

/// Kernels on these cases, in further rounds with seed + 2^32 round where that changes
/// them; rounds are whole, so what is counted does not depend on the machine.
Alarms alarms_of(std::span<const CaseSpec> cases, const AlarmOptions& options);

}  // namespace opbound::detection
