// Inputs at which our own kernel's error comes nearest to its bound: found by a search, kept in
// suites/worst/<op>.txt, checked again by a test. No correct kernel's ratio may be above 1.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "suites/prepare.hpp"
#include "suites/suite.hpp"

namespace opbound {

/// The largest ratio of error and bound over a case's outputs.
struct WorstRatio {
  double ratio = 0;
  std::string output;    ///< whose it is
  bool exceeds = false;  ///< an element is beyond its bound for certain

  bool operator<(const WorstRatio& o) const {
    return exceeds != o.exceeds ? o.exceeds : ratio < o.ratio;
  }
};

/// A case whose inputs are given value by value.
struct WorstCase {
  CaseSpec spec;
  Tensors inputs;      ///< by name: what the direction reads and no pass writes
  double before = 0;   ///< the ratio of the first inputs, drawn as the case's suite says
  WorstRatio found{};  ///< of these
  std::uint64_t evaluations = 0;
};

/// Our own kernel on these inputs, judged by its bound.
WorstRatio worst_ratio_of(const CaseSpec& spec, const Tensors& inputs);

/// Random restarts over generators of every kind of number, then single elements of the best
/// inputs: by ulps, in sign and exponent, exchanged with others or drawn anew, kept where the ratio
/// does not fall. What the suite draws without a sign stays so. A pure function of the case, the
/// seed and the number of evaluations.
WorstCase search_worst(const CaseSpec& spec, std::uint64_t seed, std::uint64_t evaluations);

/// What is worth a search in a suite: fp32, fp64 and bf16 around fp32 with the op's default
/// attributes, each direction and variant at the smallest shape that is no degenerate one.
std::vector<CaseSpec> cases_worth_a_search(const Suite& suite);

/// The file's text: `command` made it.
std::string worst_file_text(std::string_view command, const std::vector<WorstCase>& cases);

/// Reads such a file, whose name is that of an op. Throws InputError with file and line.
std::vector<WorstCase> read_worst_file(const std::string& path);

}  // namespace opbound
