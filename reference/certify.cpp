#include "reference/certify.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/parallel.hpp"
#include "ops/precision.hpp"

namespace opbound {
namespace {

/// One output tensor with everything that judges it.
struct Judged {
  TensorView view;
  const BoundArray* bound;
  const ReferenceArray* reference;
  Store store;
  bool is_final = false;  ///< no sharper reference will come

  Judgement at(std::int64_t i) const {
    const auto k = static_cast<std::size_t>(i);
    if (!is_float(view.element)) return judge_exactly(reference->exact[k].high, i);
    // Of a kernel that gives NaN no number is claimed; NaN is, where every execution gives it.
    const bool is_nan = std::isnan(bound->value[k]);
    const double radius = is_nan ? std::numeric_limits<double>::infinity() : bound->radius[k];
    Judgement j = judge(reference->exact[k], radius, reference->gauge[k], view.at(i), store,
                        is_nan && bound->radius[k] == 0);
    if (is_final && j.verdict == Verdict::undecided && std::isinf(radius))
      j.verdict = Verdict::vacuous;  // nothing is claimed, whatever the exact value may be
    if (j.verdict == Verdict::exceeds && is_infinity_of_the_algorithm(k, i))
      j.verdict = Verdict::vacuous;
    return j;
  }

  /// Does every execution of the algorithm give the infinity that was got? What an algebraic
  /// identity makes of infinities may differ from the definition: x (r^2 sum g x) is infinite for r
  /// = infinity where sum g (x r) is NaN. Then neither is held against a kernel.
  bool is_infinity_of_the_algorithm(std::size_t k, std::int64_t i) const {
    const double v = bound->value[k];
    if (!std::isinf(v) || bound->radius[k] != 0) return false;
    const auto kind = v > 0 ? Exact::Class::plus_infinity : Exact::Class::minus_infinity;
    return judge({v, 0, 0, kind}, 0, 0, view.at(i), store).verdict == Verdict::within;
  }

  /// Integers and booleans are right or wrong.
  Judgement judge_exactly(double exact, std::int64_t i) const {
    const double difference = view.at(i) - exact;
    Judgement j;
    j.verdict = difference == 0 ? Verdict::within : Verdict::exceeds;
    j.ratio = difference == 0 ? 0 : std::numeric_limits<double>::infinity();
    j.error_ulp = difference;
    return j;
  }
};

/// Sums over a run of elements; runs are merged in the elements' order, so threads change no bit.
struct Tally {
  ElementCounts counts;
  UlpHistogram histogram;
  std::uint64_t nonfinite_mismatch = 0, numbers = 0;
  double acceptable_sum = 0, acceptable_max = 0;
  double error_sum = 0, error_max = 0, signed_sum = 0, square_sum = 0;
  Judgement worst;
  std::int64_t worst_index = -1;

  void add(const Judgement& j, std::int64_t index) {
    ++counts.checked;
    switch (j.verdict) {
      case Verdict::within:
        ++counts.within;
        break;
      case Verdict::exceeds:
        ++counts.exceeds;
        break;
      case Verdict::vacuous:
        ++counts.vacuous;
        break;
      default:
        ++counts.undecided;
    }
    nonfinite_mismatch += j.nonfinite_mismatch ? 1 : 0;
    if (worst_index < 0 || is_worse(j, worst)) {
      worst = j;
      worst_index = index;
    }
    if (!j.is_error_known || !std::isfinite(j.error_ulp) || !std::isfinite(j.acceptable)) return;
    ++numbers;
    const double size = std::fabs(j.error_ulp);
    histogram.add(size);
    error_sum += size;
    error_max = std::max(error_max, size);
    signed_sum += j.error_ulp;
    square_sum += j.error_ulp * j.error_ulp;
    acceptable_sum += j.acceptable;
    acceptable_max = std::max(acceptable_max, j.acceptable);
  }

  void add(const Tally& other) {
    counts.within += other.counts.within;
    counts.exceeds += other.counts.exceeds;
    counts.undecided += other.counts.undecided;
    counts.vacuous += other.counts.vacuous;
    counts.checked += other.counts.checked;
    histogram.add(other.histogram);
    nonfinite_mismatch += other.nonfinite_mismatch;
    numbers += other.numbers;
    acceptable_sum += other.acceptable_sum;
    acceptable_max = std::max(acceptable_max, other.acceptable_max);
    error_sum += other.error_sum;
    error_max = std::max(error_max, other.error_max);
    signed_sum += other.signed_sum;
    square_sum += other.square_sum;
    if (other.worst_index >= 0 && (worst_index < 0 || is_worse(other.worst, worst))) {
      worst = other.worst;
      worst_index = other.worst_index;
    }
  }

  static bool is_worse(const Judgement& a, const Judgement& b) {
    const auto key = [](const Judgement& j) {
      const bool fails = j.verdict == Verdict::exceeds;
      return std::tuple(fails, j.verdict == Verdict::undecided, j.verdict != Verdict::vacuous,
                        j.verdict == Verdict::vacuous ? 0 : j.ratio,
                        std::isnan(j.error_ulp) ? 0 : std::fabs(j.error_ulp));
    };
    return key(a) > key(b);
  }
};

constexpr std::int64_t run_length = 4096;

/// Calls visit(run, i) for every element, runs in parallel, and returns how many runs there are.
template <class F>
void for_each_run(std::int64_t count, F visit) {
  parallel_for((count + run_length - 1) / run_length, run_length, [&](std::int64_t run) {
    const std::int64_t last = std::min(count, (run + 1) * run_length);
    for (std::int64_t i = run * run_length; i < last; ++i) visit(static_cast<std::size_t>(run), i);
  });
}

std::size_t runs_of(std::int64_t count) {
  return static_cast<std::size_t>((count + run_length - 1) / run_length);
}

/// Elements that a sharper reference would say more of; in the end those without a verdict.
std::vector<std::int64_t> open_elements(const Judged& output,
                                        const std::vector<std::int64_t>* among) {
  const auto is_open = [&](std::int64_t i) {
    const Judgement j = output.at(i);
    return j.verdict == Verdict::undecided || (!output.is_final && !j.is_error_known);
  };
  std::vector<std::int64_t> result;
  if (among != nullptr) {
    std::copy_if(among->begin(), among->end(), std::back_inserter(result), is_open);
    return result;
  }
  const std::int64_t count = output.view.count();
  std::vector<std::vector<std::int64_t>> by_run(runs_of(count));
  for_each_run(count, [&](std::size_t run, std::int64_t i) {
    if (is_open(i)) by_run[run].push_back(i);
  });
  for (const auto& r : by_run) result.insert(result.end(), r.begin(), r.end());
  return result;
}

Tally tally_of(const Judged& output) {
  std::vector<Tally> by_run(runs_of(output.view.count()));
  for_each_run(output.view.count(),
               [&](std::size_t run, std::int64_t i) { by_run[run].add(output.at(i), i); });
  Tally total;
  for (const Tally& t : by_run) total.add(t);
  return total;
}

/// Sorted, each once.
std::vector<std::int64_t> blocks_of(const PartInfo& part, const Sizes& sizes, int tensor,
                                    const std::vector<std::int64_t>& elements) {
  std::vector<std::int64_t> blocks;
  for (const std::int64_t i : elements) blocks.push_back(part.block_of(sizes, tensor, i));
  std::sort(blocks.begin(), blocks.end());
  blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
  return blocks;
}

/// An output and the elements of it that a sharper reference would say more of.
struct Open {
  int tensor;
  std::size_t part;
  Judged judged;
  std::vector<std::int64_t> elements;
  std::uint64_t decided_by_mpfr = 0;
};

BlockChoice choose_blocks(const PassInfo& pass, const Sizes& sizes, const std::vector<Open>& open) {
  BlockChoice chosen(pass.parts.size(), std::vector<std::int64_t>{});
  for (const Open& o : open) {
    const auto blocks = blocks_of(pass.parts[o.part], sizes, o.tensor, o.elements);
    auto& all = *chosen[o.part];
    std::vector<std::int64_t> both;
    std::set_union(all.begin(), all.end(), blocks.begin(), blocks.end(), std::back_inserter(both));
    all = both;
  }
  return chosen;
}

/// Only the open elements take the new values, and only where they say more: few bits can say less
/// than double-double did.
void replace(ReferenceArray& reference, const ReferenceArray& sharper,
             const std::vector<std::int64_t>& elements) {
  for (const std::int64_t i : elements) {
    const auto k = static_cast<std::size_t>(i);
    const Exact& now = sharper.exact[k];
    if (now.kind == Exact::Class::finite && now.radius > reference.exact[k].radius) continue;
    reference.exact[k] = now;
    reference.gauge[k] = sharper.gauge[k];
  }
}

OutputCheck check_of(const Open& o, const PassInfo& pass, const Sizes& sizes) {
  const Tally t = tally_of(o.judged);
  const auto n = static_cast<double>(t.numbers);
  OutputCheck c;
  c.tensor = o.tensor;
  c.counts = t.counts;
  c.histogram = t.histogram;
  c.nonfinite_mismatch = t.nonfinite_mismatch;
  c.rungs.mpfr = o.decided_by_mpfr;
  c.rungs.dd = t.counts.checked - o.decided_by_mpfr - t.counts.undecided;
  c.blocks.total = static_cast<std::uint64_t>(pass.parts[o.part].blocks(sizes));
  c.blocks.certified =
      c.blocks.total - blocks_of(pass.parts[o.part], sizes, o.tensor, o.elements).size();
  c.ratio = t.worst.verdict == Verdict::vacuous ? 0 : t.worst.ratio;  // of elements that it judges
  c.acceptable_max = t.acceptable_max;
  c.error_ulp_max = t.error_max;
  if (t.numbers > 0) {
    c.acceptable_mean = t.acceptable_sum / n;
    c.error_ulp_mean = t.error_sum / n;
    c.bias_ulp = t.signed_sum / n;
    const double variance = t.square_sum / n - c.bias_ulp * c.bias_ulp;
    c.bias_z = variance > 0 ? c.bias_ulp / std::sqrt(variance / n) : 0;
  }
  if (t.worst_index >= 0) {
    const auto k = static_cast<std::size_t>(t.worst_index);
    const Exact& e = o.judged.reference->exact[k];
    c.worst_exact = e;
    c.worst.index = k;
    c.worst.got = o.judged.view.at(t.worst_index);
    c.worst.low = e.kind == Exact::Class::finite ? e.high + (e.low - e.radius) : e.high;
    c.worst.high = e.kind == Exact::Class::finite ? e.high + (e.low + e.radius) : e.high;
    c.worst.bound = o.judged.bound->radius[k];
  }
  return c;
}

}  // namespace

Verdict verdict_of(const ElementCounts& counts) {
  if (counts.exceeds > 0) return Verdict::exceeds;
  if (counts.undecided > 0) return Verdict::undecided;
  return 2 * counts.vacuous > counts.checked ? Verdict::vacuous : Verdict::within;
}

std::vector<OutputCheck> certify(const Op& op, const Call& call, const BoundArrays& bounds,
                                 int most_bits) {
  const PassInfo& pass = op.pass(call.direction);
  const auto views = call.judged();
  ReferenceArrays reference(views.size());
  op.reference_dd(call, reference);

  std::vector<Open> open;
  for (std::size_t p = 0; p < pass.parts.size(); ++p) {
    for (const int t : pass.parts[p].outputs) {
      const auto k = static_cast<std::size_t>(t);
      if (!pass.tensors[k].is_judged() || !op.has_tensor(call.attributes, pass.tensors[k].name))
        continue;
      const Element e = views[k].element;
      const Format format = is_float(e) ? format_of(e) : fp64;
      const Store store{format, store_rounds(call.compute, format)};
      open.push_back({t, p, {views[k], &bounds[k], &reference[k], store}, {}, 0});
      open.back().elements = open_elements(open.back().judged, nullptr);
    }
  }
  const auto any_left = [&] {
    return std::any_of(open.begin(), open.end(), [](const Open& o) { return !o.elements.empty(); });
  };
  ReferenceArrays sharper(views.size());
  for (int bits = 128; bits <= most_bits && any_left(); bits *= 2) {
    op.reference_mpfr(call, bits, choose_blocks(pass, call.sizes, open), sharper);
    for (Open& o : open) {
      replace(reference[static_cast<std::size_t>(o.tensor)],
              sharper[static_cast<std::size_t>(o.tensor)], o.elements);
      const std::size_t before = o.elements.size();
      o.elements = open_elements(o.judged, &o.elements);
      o.decided_by_mpfr += before - o.elements.size();
    }
  }
  for (Open& o : open) {
    o.judged.is_final = true;
    o.elements = open_elements(o.judged, &o.elements);
  }
  std::vector<OutputCheck> checks;
  for (const Open& o : open) checks.push_back(check_of(o, pass, call.sizes));
  return checks;
}

}  // namespace opbound
