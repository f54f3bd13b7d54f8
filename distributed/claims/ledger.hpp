// The ledger: what was run for each claim, what was measured, and the verdict. One claim is one
// line of a JSON Lines file; tables and pages are made from these lines alone.
// suites/claims/README.md explains the fields.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "distributed/claims/claim.hpp"
#include "distributed/claims/experiment.hpp"
#include "distributed/claims/verdict.hpp"
#include "reports/table.hpp"

namespace opbound::claims {

inline constexpr int claim_schema = 1;

/// One run of an experiment as it is kept.
struct RunFound {
  std::vector<Figure> figures;  ///< their names have no prefix
  std::string source;
  double time_ms = 0;
};

struct ClaimRecord {
  Claim claim;                  ///< without its place
  std::vector<RunFound> found;  ///< of the claim's runs; empty where one of them could not run
  Judged judged;
  std::string commit, device;
  Named<std::string> environment;
};

/// The figures that the tests name: with each run's prefix.
std::vector<Figure> figures_of(const ClaimRecord& record);

/// Runs what the claim says, and judges. What is absent here is a verdict; a mistake in the claim's
/// file is InputError, a kernel that breaks ProviderFailure.
ClaimRecord examine(const Claim& claim, Laboratory& laboratory);

/// One line of JSON without the newline; equal records give equal bytes.
std::string to_json(const ClaimRecord& record);

/// The record of one line. Throws InputError, naming file and line, for what is no record of a
/// claim, and for one whose verdict does not follow from its figures.
ClaimRecord claim_from_json(std::string_view text, const std::string& file, long line);

std::vector<ClaimRecord> read_claim_records(const std::string& path);

/// "confirmed 4, holds only if 20, refuted 17, contradicts itself 2, not testable here 14"
std::string last_line(std::span<const ClaimRecord> records);

/// For a terminal: claim, figures, verdict; then the last line.
std::string claims_table(std::span<const ClaimRecord> records, const Terminal& terminal);

/// A page of Markdown: the table, and for each claim what was run and every figure.
std::string claims_page(std::span<const ClaimRecord> records);

}  // namespace opbound::claims
