// Two runs, check by check: which bits changed, which errors, which verdicts; and what else differs
// between the runs than the thing that was upgraded.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reports/record.hpp"

namespace opbound {

/// What became of a check; the first that applies, none of them by a tolerance.
enum class Change : std::uint8_t {
  contract_broken,  ///< held before (within, or vacuous by name), now exceeds or failed
  worse,            ///< a worse verdict, or the same and a larger error
  better,           ///< the reverse
  same_error,       ///< the same verdict and statistics, from other bits or bits not told
  same_bits,        ///< the same verdict of the same output
  only_in_old,
  only_in_new,
  skipped  ///< in one of the runs at least
};

inline constexpr std::array<Change, 8> all_changes{
    Change::contract_broken, Change::worse,       Change::better,      Change::same_error,
    Change::same_bits,       Change::only_in_old, Change::only_in_new, Change::skipped};

constexpr std::string_view name_of(Change c) {
  constexpr std::array<std::string_view, 8> names{"contract broken", "worse",     "better",
                                                  "same error",      "same bits", "only in old",
                                                  "only in new",     "skipped"};
  return names[static_cast<std::size_t>(c)];
}

/// Did both runs carry it out?
constexpr bool is_compared(Change c) { return c < Change::only_in_old; }

/// How many checks of each kind.
struct ChangeCounts {
  std::array<std::uint64_t, 8> of{};

  void add(Change c) { ++of[static_cast<std::size_t>(c)]; }
  std::uint64_t operator[](Change c) const { return of[static_cast<std::size_t>(c)]; }
  std::uint64_t compared() const;
};

/// A check of either run or of both. Where it stands several times in a run, its worst stands for
/// it, so that what varies from call to call is not called a change.
struct ComparedCheck {
  std::vector<const Record*> before, after;  ///< the worst first; empty where it is not there
  Change change = Change::skipped;
  std::string decided_by;  ///< for better and worse: "verdict" or the statistic that differs first

  /// The record that names it best: the new one, unless that is of its whole case.
  const Record& shown() const;
  /// Its output's bits are known in both runs and equal.
  bool has_same_bits() const;
  /// A finding that the old run could not have: the check was not there, or was skipped.
  bool is_new_finding() const;
  /// Ran in the old run and was skipped in the new one.
  bool is_newly_skipped() const;
};

/// One thing that the records tell of the runs: "cudnn", 9.14.0 before, 9.19.0 after. Several
/// values of one run are joined by " | ".
struct Told {
  std::string name;
  std::string before, after;
  bool differs = false;  ///< for at least one check; then the values are those of such checks
};

struct Comparison {
  std::string old_name, new_name;
  std::vector<ComparedCheck> checks;  ///< in the order of the old run, then of the new one
  std::vector<Told> told;             ///< of the compared checks; by likelihood of being upgraded
  ChangeCounts counts;
  std::uint64_t new_findings = 0, newly_skipped = 0;

  std::vector<Told> differences() const;
  /// exit_found where a contract is broken, something is worse or a finding is new.
  int exit_code() const;
};

/// The checks are joined by all that says what was computed, on which kind of device and by whose
/// kernel. What is left on both sides is joined without its contract, then without the names of its
/// input files, its provider, its kind of device, where that leaves no choice. The records have to
/// outlive the comparison.
Comparison compare(std::span<const Record> before, std::span<const Record> after);

/// What a check's output did, worst first: `before` and `after` are records of one check.
Change change_between(const Record& before, const Record& after, std::string& decided_by);

// ---- what else differs

/// What a run may be told to differ in beside its upgrade: see Told::name.
std::vector<std::string> tellable_names(const Comparison& comparison);

/// What the user says of it.
struct Permission {
  std::string upgrade;               ///< the thing upgraded; empty: the one thing that differs
  std::vector<std::string> allowed;  ///< what may differ beside it; "all": everything
};

/// Throws InputError if more differs than one upgrade and what is allowed, and if the upgrade that
/// is named does not differ.
void require_one_upgrade(const Comparison& comparison, const Permission& permission);

/// "cudnn 9.14.0 -> 9.19.0", for a reader.
std::string text_of(const Told& told, std::string_view arrow);

namespace detail {
/// What the records of the compared checks tell; fills Comparison::told.
std::vector<Told> told_by(std::span<const ComparedCheck> checks);
/// The inputs without the paths of their files.
std::string input_without_paths(const std::string& input);
}  // namespace detail

}  // namespace opbound
