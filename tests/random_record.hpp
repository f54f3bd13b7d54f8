// Records for tests: random ones, in which every field is there half of the time, and a small one.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "ops/philox.hpp"
#include "reports/record.hpp"

namespace opbound {

/// Random records from a stream of Philox words: each field is there half of the time.
class RandomRecord {
 public:
  explicit RandomRecord(std::uint64_t seed) : seed_(seed) {}

  Record make() {
    Record r;
    r.kind = all_check_kinds[below(5)];
    r.op = "op" + text();
    for (std::string* s :
         {&r.part, &r.direction, &r.variant, &r.precision, &r.provider, &r.provider_version,
          &r.contract, &r.device, &r.allowed_vacuous, &r.bound_source, &r.output_hash, &r.schedule,
          &r.suite, &r.commit, &r.reason, &r.inputs.input})
      if (coin()) *s = text();
    for (std::optional<double>* x :
         {&r.acceptable_mean, &r.acceptable_max, &r.error_ulp_max, &r.error_ulp_mean, &r.bias_ulp,
          &r.bias_z, &r.alpha, &r.rounding_share, &r.method_share, &r.time_ms})
      if (coin()) *x = any_double();
    if (coin()) r.ratio = coin() ? std::numeric_limits<double>::infinity() : std::abs(finite());
    if (coin()) r.p_value = static_cast<double>(word()) * 0x1p-32;
    for (std::size_t n = below(4), i = 0; i < n; ++i) {
      r.attributes.emplace_back("a" + std::to_string(i), attribute());
      r.environment.emplace_back("e" + std::to_string(i), coin() ? text() : "");
      r.inputs.shape.emplace_back("n" + std::to_string(i), static_cast<std::int64_t>(wide()));
    }
    if (coin()) r.inputs.seed = wide();
    if (coin()) r.nonfinite_mismatch = wide();
    if (coin()) r.ranks = static_cast<std::int64_t>(wide());
    if (coin()) r.in_situ = InSitu{1, static_cast<std::int64_t>(wide()), 3, 4};
    if (coin()) r.rungs = Rungs{wide(), wide(), wide()};
    if (coin()) r.blocks = BlockCounts{std::numeric_limits<std::uint64_t>::max(), wide()};
    for (std::size_t n = below(9); n > 0; --n) r.ulp_histogram.add(std::abs(finite()));
    if (coin()) r.worst = worst();
    fill_counts(r);
    return r;
  }

 private:
  std::uint32_t word() { return philox_word(seed_, 0, index_++); }
  std::uint64_t wide() { return (std::uint64_t{word()} << 32) | word(); }
  std::size_t below(std::size_t n) { return word() % n; }
  bool coin() { return below(2) == 0; }

  double any_double() { return std::bit_cast<double>(wide()); }
  double finite() {
    const double x = any_double();
    return std::isfinite(x) ? x : 0.0;
  }
  std::string text() {
    static constexpr std::array<std::string_view, 8> pieces{
        "a", "\n", "\"", "\\", "\u00e9", "\u2028", "\U0001f600", std::string_view("\0", 1)};
    std::string s;
    for (std::size_t n = 1 + below(6); n > 0; --n) s += pieces[below(pieces.size())];
    return s;
  }
  AttributeValue attribute() {
    switch (below(4)) {
      case 0:
        return coin();
      case 1:
        return static_cast<std::int64_t>(wide());
      case 2:
        return any_double();
      default:
        return coin() ? text() : "";
    }
  }
  Worst worst() {
    Worst w{wide(), {}, any_double(), any_double(), any_double(), any_double()};
    if (coin()) w.input = {{"x", any_double()}, {"dy", any_double()}};
    return w;
  }
  void fill_counts(Record& r) {
    ElementCounts& c = r.counts;
    c = {word(), below(2), below(2), below(2), 0};
    c.checked = c.within + c.exceeds + c.undecided + c.vacuous;
    r.verdict = c.exceeds > 0     ? Verdict::exceeds
                : c.undecided > 0 ? Verdict::undecided
                                  : all_verdicts[below(6)];
  }

  std::uint64_t seed_;
  std::uint64_t index_ = 0;
};

inline Record small_record() {
  Record r;
  r.op = "gelu";
  r.precision = "bf16:fp32:bf16";
  r.counts = {.within = 2, .checked = 2};
  return r;
}

}  // namespace opbound
