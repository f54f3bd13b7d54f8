// How a claim's verdict follows from the figures that were measured. Nothing else decides it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "distributed/claims/claim.hpp"

namespace opbound::claims {

enum class ClaimVerdict : std::uint8_t {
  confirmed,           ///< every test holds
  holds_only_if,       ///< some do: those whose conditions are named
  refuted,             ///< none does
  contradicts_itself,  ///< numbers of the claim cannot all be right
  not_testable_here    ///< nothing ran, or the figures are too uncertain to decide
};
inline constexpr std::array<std::string_view, 5> claim_verdict_names{
    "confirmed", "holds only if", "refuted", "contradicts itself", "not testable here"};
constexpr std::string_view name_of(ClaimVerdict v) {
  return claim_verdict_names[static_cast<std::size_t>(v)];
}

/// `open`: the interval of a figure lies on both sides of what it is compared with.
enum class Outcome : std::uint8_t { fails, holds, open };
inline constexpr std::array<std::string_view, 3> outcome_names{"fails", "holds", "open"};

struct Judged {
  ClaimVerdict verdict = ClaimVerdict::not_testable_here;
  std::string because;  ///< the conditions, the contradiction, or why it is not testable here
  std::vector<Outcome> outcomes;  ///< of the tests; empty where nothing ran
};

/// What a comparison says of a figure, whose interval counts as a whole: it holds or fails only
/// where it does so on all of it. NaN is equal to nothing, and neither above nor below anything.
Outcome outcome_of(const Figure& figure, Comparison comparison, const Figure& other);

/// The verdict. `absence`: why an experiment could not run; then nothing is judged. A test that
/// names a figure which no experiment gave is a mistake of the claim's file: InputError.
///
/// One test about the claim itself that fails: contradicts_itself. Else an open test: not testable
/// here. Else all, some or none of the tests hold: confirmed, holds_only_if, refuted.
Judged judge(const Claim& claim, std::span<const Figure> figures, const std::string& absence = {});

}  // namespace opbound::claims
