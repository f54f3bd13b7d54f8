// Records for tests of comparisons: one check, and how it may have changed.
#pragma once

#include <string>

#include "reports/record.hpp"

namespace opbound {

/// A check that is within its bound.
inline Record check_record() {
  Record r;
  r.op = "gelu";
  r.part = "y";
  r.direction = "forward";
  r.variant = "erfc";
  r.precision = "bf16:fp32:bf16";
  r.attributes = {{"approximate", "none"}};
  r.provider = "own";
  r.contract = "erfc, own order and functions";
  r.device = "cpu";
  r.inputs = {{{"n", 100}}, "x=normal", 1};
  r.counts = {.within = 100, .checked = 100};
  r.ratio = 0.5;
  r.error_ulp_max = 0.75;
  r.error_ulp_mean = 0.25;
  r.bias_ulp = 0.01;
  r.ulp_histogram.counts = {50, 45, 5};
  r.nonfinite_mismatch = 0;
  r.output_hash = "sum64:0000000000000001";
  r.suite = "suites/gelu.toml";
  r.commit = "abc";
  return r;
}

inline Record with_other_bits(Record r, const std::string& bits = "2") {
  r.output_hash = "sum64:" + bits;
  return r;
}

/// The same check with another end, and counts that agree with it.
inline Record with_verdict(Record r, Verdict verdict, const std::string& allowed_vacuous = {}) {
  r.verdict = verdict;
  r.allowed_vacuous = allowed_vacuous;
  const std::uint64_t n = r.counts.checked;
  r.counts = {.checked = n};
  switch (verdict) {
    case Verdict::failed:
    case Verdict::skipped:
      r.counts = {};
      r.reason = "it has to be so";
      break;
    case Verdict::exceeds:
      r.counts.exceeds = 1;
      r.counts.within = n - 1;
      break;
    case Verdict::undecided:
      r.counts.undecided = 1;
      r.counts.within = n - 1;
      break;
    case Verdict::vacuous:
      r.counts.vacuous = n;
      break;
    case Verdict::within:
      r.counts.within = n;
  }
  return r;
}

}  // namespace opbound
