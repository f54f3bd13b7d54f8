#include "reference/certify.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/parallel.hpp"
#include "ops/precision.hpp"
#include "ops/team.hpp"

namespace opbound {
namespace {

/// A run of elements' tally, and by the way which are open and how large errors are.
struct Run {
  Tally tally;
  mutable UlpHistogram::Counts histogram{};
  mutable std::vector<std::int64_t> indices;

  void decided(double error) const { ++histogram[UlpHistogram::entry_of(error)]; }
  void open(std::int64_t i) const { indices.push_back(i); }
};

void tally_all(const JudgedOutput& judged, FirstRung& to) {
  const std::int64_t count = judged.view.count();
  std::vector<Run> runs(static_cast<std::size_t>(runs_of(count)));
  parallel_for(std::ssize(runs), run_length, [&](std::int64_t r) {
    Run& run = runs[static_cast<std::size_t>(r)];
    run.tally = tally_run(HostTeam<team_width>{}, r, count,
                          [&](std::int64_t i) { return judged.first(i, run); });
    std::sort(run.indices.begin(), run.indices.end());
  });
  std::vector<Tally> tallies;
  for (const Run& run : runs) {
    tallies.push_back(run.tally);
    for (std::size_t k = 0; k < run.histogram.size(); ++k) to.histogram[k] += run.histogram[k];
    to.open.insert(to.open.end(), run.indices.begin(), run.indices.end());
  }
  to.tally = merged(std::move(tallies));
  if (to.tally.worst >= 0) to.worst = judged.element(to.tally.worst);
  for (const std::int64_t i : to.open) to.elements.push_back(judged.element(i));
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

std::vector<std::int64_t> open_elements(const FirstRung& o) {
  std::vector<std::int64_t> elements;
  for (const std::size_t k : o.left) elements.push_back(o.open[k]);
  return elements;
}

void drop_closed(FirstRung& o, bool is_final) {
  std::erase_if(o.left, [&](std::size_t k) {
    return !o.judge.is_open(o.judge.of(o.elements[k], is_final), is_final);
  });
}

/// Only open elements take the new values, and only where they say more: few bits can say less than
/// double-double did.
void take(FirstRung& o, const ReferenceArray& sharper) {
  for (const std::size_t k : o.left) {
    const auto i = static_cast<std::size_t>(o.open[k]);
    const Exact& now = sharper.exact[i];
    if (now.kind == Exact::Class::finite && now.radius > o.elements[k].exact.radius) continue;
    o.elements[k].exact = now;
    o.elements[k].gauge = sharper.gauge[i];
  }
  drop_closed(o, false);
}

BlockChoice choose_blocks(const PassInfo& pass, const Sizes& sizes,
                          const std::vector<FirstRung>& outputs) {
  BlockChoice chosen(pass.parts.size(), std::vector<std::int64_t>{});
  for (const FirstRung& o : outputs) {
    const auto blocks = blocks_of(pass.parts[o.part], sizes, o.tensor, open_elements(o));
    auto& all = *chosen[o.part];
    std::vector<std::int64_t> both;
    std::set_union(all.begin(), all.end(), blocks.begin(), blocks.end(), std::back_inserter(both));
    all = both;
  }
  return chosen;
}

}  // namespace

void join(FirstRung& o) {
  o.tally.undecided -= o.open.size();  // what is left had no room in `open`
  for (std::size_t k = 0; k < o.open.size(); ++k) {
    const Judgement j = o.judge.of(o.elements[k], true);
    if (o.tally.take(j, o.open[k], o.judge.most_doubt_ulp))
      ++o.histogram[UlpHistogram::entry_of(std::fabs(j.error_ulp))];
    if (o.tally.worst == o.open[k]) o.worst = o.elements[k];
  }
}

OutputCheck check_of(const Tally& t, const UlpHistogram::Counts& histogram,
                     const JudgedElement& worst) {
  const auto n = static_cast<double>(t.numbers);
  OutputCheck c;
  c.counts = {t.within, t.exceeds, t.undecided, t.vacuous, t.checked()};
  c.histogram = UlpHistogram(histogram);
  c.nonfinite_mismatch = t.nonfinite_mismatch;
  c.hash = t.hash;
  c.proof_hash = t.proof_hash;
  c.ratio = t.worst_ratio;
  c.acceptable_max = t.acceptable_max;
  c.error_ulp_max = t.error_max;
  if (t.numbers > 0) {
    c.acceptable_mean = t.acceptable_sum / n;
    c.error_ulp_mean = t.error_sum / n;
    c.bias_ulp = t.signed_sum / n;
    const double variance = t.square_sum / n - c.bias_ulp * c.bias_ulp;
    c.bias_z = variance > 0 ? c.bias_ulp / std::sqrt(variance / n) : 0;
  }
  if (t.worst < 0) return c;
  const Exact& e = worst.exact;
  const bool is_number = e.kind == Exact::Class::finite;
  c.worst_exact = e;
  c.worst.index = static_cast<std::uint64_t>(t.worst);
  c.worst.got = worst.got;
  c.worst.low = is_number ? e.high + (e.low - e.radius) : e.high;
  c.worst.high = is_number ? e.high + (e.low + e.radius) : e.high;
  c.worst.bound = worst.radius;
  return c;
}

Verdict verdict_of(const ElementCounts& counts) {
  if (counts.exceeds > 0) return Verdict::exceeds;
  if (counts.undecided > 0) return Verdict::undecided;
  return 2 * counts.vacuous > counts.checked ? Verdict::vacuous : Verdict::within;
}

std::vector<FirstRung> judged_outputs(const Op& op, const Call& call) {
  const PassInfo& pass = op.pass(call.direction);
  std::vector<FirstRung> outputs;
  for (std::size_t p = 0; p < pass.parts.size(); ++p) {
    for (const int t : pass.parts[p].outputs) {
      const TensorSpec& spec = pass.tensors[static_cast<std::size_t>(t)];
      if (!spec.is_judged() || !op.has_tensor(call.attributes, spec.name)) continue;
      const Element e = call.judged()[static_cast<std::size_t>(t)].element;
      const Format format = is_float(e) ? format_of(e) : fp64;
      FirstRung o{};
      o.tensor = t;
      o.part = p;
      o.judge = {{format, store_rounds(call.compute, format)}, !is_float(e)};
      outputs.push_back(o);
    }
  }
  return outputs;
}

void climb(const Op& op, const Call& call, std::vector<FirstRung>& outputs, int most_bits) {
  const PassInfo& pass = op.pass(call.direction);
  for (FirstRung& o : outputs) {
    o.left.resize(o.open.size());
    std::iota(o.left.begin(), o.left.end(), std::size_t{0});
    drop_closed(o, false);
    o.sent_to_mpfr = o.left.size();
  }
  const auto all_done = [&] {
    return std::all_of(outputs.begin(), outputs.end(),
                       [](const FirstRung& o) { return o.left.empty(); });
  };
  ReferenceArrays sharper(pass.tensors.size());
  for (int bits = 128; bits <= most_bits && !all_done(); bits *= 2) {
    op.reference_mpfr(call, bits, choose_blocks(pass, call.sizes, outputs), sharper);
    for (FirstRung& o : outputs) take(o, sharper[static_cast<std::size_t>(o.tensor)]);
  }
  for (FirstRung& o : outputs) drop_closed(o, true);
}

std::vector<OutputCheck> finish(const Op& op, const Call& call, std::vector<FirstRung> outputs,
                                int most_bits) {
  const PassInfo& pass = op.pass(call.direction);
  climb(op, call, outputs, most_bits);
  std::vector<OutputCheck> checks;
  for (FirstRung& o : outputs) {
    join(o);
    OutputCheck c = check_of(o.tally, o.histogram, o.worst);
    c.tensor = o.tensor;
    c.by_theorem = o.by_theorem;
    c.rungs.mpfr = o.open.size() - o.left.size();
    c.is_of_every_order = o.is_of_every_order;
    (o.is_of_every_order ? c.rungs.fp64 : c.rungs.dd) = c.counts.checked - o.open.size();
    const PartInfo& part = pass.parts[o.part];
    c.blocks.total = static_cast<std::uint64_t>(part.blocks(call.sizes));
    c.blocks.certified =
        c.blocks.total - blocks_of(part, call.sizes, o.tensor, open_elements(o)).size();
    checks.push_back(c);
  }
  return checks;
}

namespace {
/// Visits every judged output with everything that judges it.
template <class F>
std::vector<FirstRung> by_double_double(const Op& op, const Call& call, const BoundArrays& bounds,
                                        F visit) {
  const auto views = call.judged();
  ReferenceArrays reference(views.size());
  op.reference_dd(call, reference);
  std::vector<FirstRung> outputs = judged_outputs(op, call);
  for (FirstRung& o : outputs) {
    const auto t = static_cast<std::size_t>(o.tensor);
    visit(JudgedOutput{views[t], bounds[t].value.data(), bounds[t].radius.data(),
                       reference[t].exact.data(), reference[t].gauge.data(), o.judge},
          o);
    o.by_theorem = bounds[t].by_theorem;
  }
  return outputs;
}
}  // namespace

std::vector<OutputCheck> certify(const Op& op, const Call& call, const BoundArrays& bounds,
                                 int most_bits) {
  return finish(op, call, by_double_double(op, call, bounds, tally_all), most_bits);
}

std::vector<FirstRung> settled(const Op& op, const Call& call, const BoundArrays& bounds,
                               int most_bits) {
  std::vector<FirstRung> outputs = by_double_double(op, call, bounds, tally_all);
  climb(op, call, outputs, most_bits);
  for (FirstRung& o : outputs) join(o);
  return outputs;
}

std::vector<FirstRung> judged_elements(const Op& op, const Call& call, const BoundArrays& bounds,
                                       int most_bits) {
  auto outputs = by_double_double(op, call, bounds, [](const JudgedOutput& judged, FirstRung& o) {
    for (std::int64_t i = 0; i < judged.view.count(); ++i) {
      o.open.push_back(i);
      o.elements.push_back(judged.element(i));
    }
  });
  climb(op, call, outputs, most_bits);
  return outputs;
}

Tally merged(std::vector<Tally> tallies) {
  while (tallies.size() > 1) {
    std::vector<Tally> level;
    for (std::int64_t r = 0; r < runs_of(std::ssize(tallies)); ++r)
      level.push_back(
          tally_run(HostTeam<team_width>{}, r, std::ssize(tallies),
                    [&](std::int64_t k) { return tallies[static_cast<std::size_t>(k)]; }));
    tallies = std::move(level);
  }
  return tallies.empty() ? Tally{} : tallies.front();
}

std::string hash_text(std::uint64_t hash) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text = "sum64:";
  for (int shift = 60; shift >= 0; shift -= 4) text += digits[(hash >> shift) & 15];
  return text;
}

}  // namespace opbound
