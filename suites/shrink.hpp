// The smallest input that still fails.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "suites/probe.hpp"

namespace opbound {

/// A case whose output `place` has an element that exceeds its bound, with the tensors it reads
/// (and the outputs, of a kernel that cannot be run again).
struct Failure {
  CaseSpec spec;
  Tensors tensors;
  std::size_t place = 0;
  Probed worst;  ///< without `without_rounding`
};

/// The failure of a case, if there is one. `stored`: outputs come from the provider's files and are
/// kept, since the kernel cannot be run again.
std::optional<Failure> find_failure(const CaseSpec& spec, const Provider& provider,
                                    std::string_view part, bool stored);

/// Leaves out indices of one dimension after the other (delta debugging, Zeller and Hildebrandt
/// 2002), then makes the values that are left simpler: 0, 1, fewer significand bits. Every step is
/// run and judged again, at most `most_runs` times. Where outputs are stored no value is changed,
/// and only such indices are left out as change neither the element's exact value nor its bound.
struct Shrunk {
  Failure failure;
  int runs = 0;
};
Shrunk shrink(const Failure& failure, const Provider& provider, bool stored, int most_runs = 5000);

}  // namespace opbound
