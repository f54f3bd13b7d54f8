// What a check can end in, which of two ends is worse, and what the program's exit code says.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace opbound {

/// In order of precedence: the first that applies is the verdict of a check and of a whole run.
enum class Verdict : std::uint8_t {
  failed,     ///< the check could not be carried out: a crash, a wrong shape, an error return
  exceeds,    ///< the error is larger than its bound for certain, or an exact claim is broken
  undecided,  ///< the reference could not be made sharp enough to tell
  vacuous,    ///< the bound is so large that staying below it says nothing
  skipped,    ///< what the check needs is absent here
  within      ///< the error is within its bound for certain
};

inline constexpr std::array<Verdict, 6> all_verdicts{Verdict::failed,    Verdict::exceeds,
                                                     Verdict::undecided, Verdict::vacuous,
                                                     Verdict::skipped,   Verdict::within};

constexpr std::string_view name_of(Verdict v) {
  constexpr std::array<std::string_view, 6> names{"failed",  "exceeds", "undecided",
                                                  "vacuous", "skipped", "within"};
  return names[static_cast<std::size_t>(v)];
}

/// The verdict with this name, if there is one.
constexpr std::optional<Verdict> verdict_named(std::string_view name) {
  for (const Verdict v : all_verdicts)
    if (name_of(v) == name) return v;
  return std::nullopt;
}

/// The one of higher precedence; `within` is the neutral element.
constexpr Verdict worse(Verdict a, Verdict b) { return a < b ? a : b; }

/// How many checks ended in each verdict.
struct VerdictCounts {
  std::array<std::uint64_t, 6> of{};

  constexpr void add(Verdict v) { ++of[static_cast<std::size_t>(v)]; }
  constexpr std::uint64_t operator[](Verdict v) const { return of[static_cast<std::size_t>(v)]; }
  constexpr bool operator==(const VerdictCounts&) const = default;
};

/// Exit codes of the program.
enum ExitCode : int {
  exit_clean = 0,    ///< everything within, skipped, or vacuous and allowed by name
  exit_found = 1,    ///< something exceeds, failed, is undecided, or vacuous and not allowed
  exit_bad_use = 2,  ///< a wrong command line or a file that cannot be read
  exit_missing = 3   ///< something named by --require is missing
};

/// The exit code of a run in which `allowed_vacuous` of the vacuous checks are allowed by name. A
/// finding outranks something missing: it is known for certain, and the output names both.
constexpr int exit_code(const VerdictCounts& counts, std::uint64_t allowed_vacuous,
                        bool required_missing = false) {
  const bool found = counts[Verdict::failed] > 0 || counts[Verdict::exceeds] > 0 ||
                     counts[Verdict::undecided] > 0 || counts[Verdict::vacuous] > allowed_vacuous;
  return found ? exit_found : required_missing ? exit_missing : exit_clean;
}

}  // namespace opbound
