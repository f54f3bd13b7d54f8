// A claim of somebody's about the numerics of training: in our words, with the experiment that is
// run for it and the comparisons that decide it. Read from suites/claims/*.toml, which
// suites/claims/README.md describes.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/attribute.hpp"
#include "ops/tensor.hpp"
#include "reports/record.hpp"

namespace opbound::claims {

/// A number that an experiment measured. What is measured without doubt has low = value = high.
struct Figure {
  std::string name;
  double value = 0;
  double low = 0, high = 0;  ///< the true figure lies in [low, high], as far as `what` says
  std::string unit;          ///< "nats", "ulp"; empty: a count or a ratio
  std::string what;          ///< in words

  bool operator==(const Figure&) const = default;
};

/// What one run of an experiment found.
struct Measured {
  std::vector<Figure> figures;
  std::string source;  ///< the committed records that were read, where nothing was run

  void add(std::string name, double value, std::string what, std::string unit = {});
  /// The mean of independent figures, with the interval that Student's t gives for it; all equal:
  /// an interval of one point.
  void add_mean(std::string name, std::span<const double> samples, std::string what,
                std::string unit = {});
};

/// Rows of the committed ledger.
inline constexpr int ledger_rows = 57;

/// The false-alarm rate of every interval that a verdict rests on: 1% for all rows of the ledger
/// together (Bonferroni), however many figures a row has one of.
inline constexpr double interval_alpha = 0.01 / ledger_rows;

enum class Comparison : std::uint8_t { equals, is, is_not, above, below, at_least, at_most };
/// `equals`: is rounded or cut to the number as it is printed, "0.012" being all of [0.0115,
/// 0.013], since nobody says which. All others take the number as it stands.
inline constexpr std::array<std::string_view, 7> comparison_names{
    "equals", "is", "is_not", "above", "below", "at_least", "at_most"};

/// A statement of the claim under a condition: it holds where the figure compares so.
struct Test {
  /// What completes "holds only if ..."; of a test of the claim against itself, what it would take.
  std::string condition;
  /// Compares numbers of the claim's own with each other: where it fails, they contradict.
  bool is_about_itself = false;
  std::string figure;
  Comparison comparison = Comparison::equals;
  std::string operand;  ///< a number as it is printed, or another figure's name
};

/// One run of an experiment, with all its parameters.
struct Run {
  std::string experiment;
  std::string prefix;  ///< of its figures' names, "prefix."; empty: none
  Named<AttributeValue> parameters;
};

struct Claim {
  std::string id;    ///< "C05"
  std::string text;  ///< in our words
  std::string note;  ///< what a reader of the verdict should know
  /// Why nothing is run here; empty where something is.
  std::string not_run;
  std::vector<Run> runs;
  std::vector<Test> tests;
  std::string place;  ///< FILE:LINE
};

/// The claims of a file, in its order. Throws InputError with file and line for an unknown key, an
/// unknown experiment or parameter, a test without a comparison, an identifier that is there twice.
std::vector<Claim> read_claims(const std::string& path);

/// Those of all these files by identifier. Throws InputError for one that is there twice.
std::vector<Claim> read_claims(std::span<const std::string> paths);

/// A number as somebody printed it, and all numbers that are rounded or cut to it: from half a unit
/// of its last digit below it to a whole unit above it, in magnitude.
struct Printed {
  double value = 0, low = 0, high = 0;
};
/// Throws InputError for what is no number; an infinity is "inf".
Printed printed_number(std::string_view text);
/// Does it begin as a number does, so that it is no figure's name?
bool looks_like_number(std::string_view text);

}  // namespace opbound::claims
