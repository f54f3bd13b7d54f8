// Judging every output of a call against a reference that is sharpened until each verdict is
// certain.
#pragma once

#include <string>
#include <vector>

#include "bounds/judged.hpp"
#include "ops/op.hpp"
#include "reports/record.hpp"

namespace opbound {

/// What judging one output tensor gave. Statistics are over elements whose exact and got value are
/// numbers.
struct OutputCheck {
  int tensor = 0;  ///< place in the pass's tensor list
  ElementCounts counts;
  double ratio = 0;
  double acceptable_mean = 0, acceptable_max = 0;
  double error_ulp_max = 0, error_ulp_mean = 0;
  double bias_ulp = 0, bias_z = 0;
  UlpHistogram histogram;
  Rungs rungs;
  BlockCounts blocks;
  std::uint64_t nonfinite_mismatch = 0;
  std::uint64_t hash = 0;          ///< of the output's bits
  std::uint64_t proof_hash = 0;    ///< of the bounds' and of the double-double reference's
  std::uint64_t by_theorem = 0;    ///< bounds that are a theorem's
  bool is_of_every_order = false;  ///< the bound was made for every order of summation
  /// The element with the largest ratio, then the largest error, then the smallest index; `input`
  /// is left empty.
  Worst worst;
  Exact worst_exact;
};

/// Verdicts by double-double of one output, and what they leave open.
struct FirstRung {
  int tensor;
  std::size_t part;
  Judge judge;
  Tally tally;  ///< of all elements that are decided
  UlpHistogram::Counts histogram{};
  JudgedElement worst{};           ///< the tally's worst element
  std::vector<std::int64_t> open;  ///< indices, rising
  std::vector<JudgedElement> elements;
  std::vector<std::size_t> left;   ///< places in `open` that no rung has closed yet
  std::uint64_t sent_to_mpfr = 0;  ///< open elements that double-double did not close
  std::uint64_t by_theorem = 0;
  bool is_of_every_order = false;  ///< fp64 references and bounds for every order of summation
};

/// The outputs of a call that are judged, with nothing in their tallies yet.
std::vector<FirstRung> judged_outputs(const Op& op, const Call& call);

/// Decides what the first rung left open, and elements whose error it does not tell to 2^-16 ulp:
/// the blocks concerned are run again in intervals of 128, 256, ... bits, up to `most_bits`. The
/// call's inputs are read on the host; its outputs are not.
void climb(const Op& op, const Call& call, std::vector<FirstRung>& outputs, int most_bits = 4096);

/// `climb`, and what it all comes to; elements left without a verdict are undecided.
std::vector<OutputCheck> finish(const Op& op, const Call& call, std::vector<FirstRung> outputs,
                                int most_bits = 4096);

/// The same as `certify`, as tallies that everything has joined.
std::vector<FirstRung> settled(const Op& op, const Call& call, const BoundArrays& bounds,
                               int most_bits = 4096);

/// Counts and statistics of a tally, and its worst element, in a check's words.
OutputCheck check_of(const Tally& tally, const UlpHistogram::Counts& histogram,
                     const JudgedElement& worst);

/// Every element of every judged output that the call's views hold, with references that are sharp
/// enough to judge them, or as sharp as `most_bits` make them.
std::vector<FirstRung> judged_elements(const Op& op, const Call& call, const BoundArrays& bounds,
                                       int most_bits = 4096);

/// What was open joins the tally, one by one in the order of `open`.
void join(FirstRung& output);

/// Tallies of runs merged level by level into one.
Tally merged(std::vector<Tally> tallies);

/// Verdict over a tensor: failing elements first; vacuous where most elements are.
Verdict verdict_of(const ElementCounts& counts);

/// Judges the outputs that the call's views hold: the first rung on the host, and `finish`. From
/// fp64's largest to its smallest number are 2098 bits.
std::vector<OutputCheck> certify(const Op& op, const Call& call, const BoundArrays& bounds,
                                 int most_bits = 4096);

/// Elements' hashes added: "sum64:0123456789abcdef".
std::string hash_text(std::uint64_t hash);

}  // namespace opbound
