#include "reference/certify.hpp"

#include <algorithm>
#include <cmath>

#include "ops/parallel.hpp"
#include "ops/precision.hpp"
#include "ops/team.hpp"

namespace opbound {
namespace {

/// A run of elements' tally, and by the way which are open and how large errors are.
struct Run {
  Tally tally;
  UlpHistogram::Counts histogram{};
  std::vector<std::int64_t> open;
};

void tally_all(const Judged& judged, FirstRung& to) {
  const std::int64_t count = judged.view.count();
  std::vector<Run> runs(static_cast<std::size_t>(runs_of(count)));
  parallel_for(std::ssize(runs), run_length, [&](std::int64_t r) {
    Run& run = runs[static_cast<std::size_t>(r)];
    run.tally = tally_run(HostTeam<team_width>{}, r, count, [&](std::int64_t i) {
      return judged.first(
          i, [&](double error) { ++run.histogram[UlpHistogram::entry_of(error)]; },
          [&] { run.open.push_back(i); });
    });
    std::sort(run.open.begin(), run.open.end());
  });
  std::vector<Tally> tallies;
  for (const Run& run : runs) {
    tallies.push_back(run.tally);
    for (std::size_t k = 0; k < run.histogram.size(); ++k) to.histogram[k] += run.histogram[k];
    to.open.insert(to.open.end(), run.open.begin(), run.open.end());
  }
  while (tallies.size() > 1) {
    std::vector<Tally> merged;
    for (std::int64_t r = 0; r < runs_of(std::ssize(tallies)); ++r)
      merged.push_back(
          tally_run(HostTeam<team_width>{}, r, std::ssize(tallies),
                    [&](std::int64_t k) { return tallies[static_cast<std::size_t>(k)]; }));
    tallies = merged;
  }
  if (!tallies.empty()) to.tally = tallies.front();
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

/// Elements of one output on their way up the ladder.
class Ladder {
 public:
  explicit Ladder(FirstRung& output) : output_(output) {
    for (std::size_t k = 0; k < output.open.size(); ++k) left_.push_back(k);
  }
  bool is_done() const { return left_.empty(); }
  std::uint64_t decided() const { return output_.open.size() - left_.size(); }

  std::vector<std::int64_t> open() const {
    std::vector<std::int64_t> elements;
    for (const std::size_t k : left_) elements.push_back(output_.open[k]);
    return elements;
  }

  /// Only open elements take the new values, and only where they say more: few bits can say less
  /// than double-double did.
  void take(const ReferenceArray& sharper) {
    for (const std::size_t k : left_) {
      const auto i = static_cast<std::size_t>(output_.open[k]);
      const Exact& now = sharper.exact[i];
      JudgedElement& e = output_.elements[k];
      if (now.kind == Exact::Class::finite && now.radius > e.exact.radius) continue;
      e.exact = now;
      e.gauge = sharper.gauge[i];
    }
    drop_closed(false);
  }

  void drop_closed(bool is_final) {
    std::erase_if(left_, [&](std::size_t k) {
      return !output_.judge.is_open(output_.judge.of(output_.elements[k], is_final), is_final);
    });
  }

 private:
  FirstRung& output_;
  std::vector<std::size_t> left_;  ///< places in output.open
};

BlockChoice choose_blocks(const PassInfo& pass, const Sizes& sizes,
                          const std::vector<FirstRung>& outputs,
                          const std::vector<Ladder>& ladders) {
  BlockChoice chosen(pass.parts.size(), std::vector<std::int64_t>{});
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const std::size_t part = outputs[o].part;
    const auto blocks = blocks_of(pass.parts[part], sizes, outputs[o].tensor, ladders[o].open());
    auto& all = *chosen[part];
    std::vector<std::int64_t> both;
    std::set_union(all.begin(), all.end(), blocks.begin(), blocks.end(), std::back_inserter(both));
    all = both;
  }
  return chosen;
}

/// Elements that the ladder decided, or could not, join the tally one by one.
void join(FirstRung& o) {
  o.tally.undecided = 0;
  for (std::size_t k = 0; k < o.open.size(); ++k) {
    const Tally one = Tally::of(o.judge.of(o.elements[k], true), o.open[k], o.judge.most_doubt_ulp);
    if (one.numbers != 0) ++o.histogram[UlpHistogram::entry_of(one.worst_error)];
    o.tally.add(one);
    if (o.tally.worst == o.open[k]) o.worst = o.elements[k];
  }
}

void fill_statistics(const Tally& t, OutputCheck& c) {
  const auto n = static_cast<double>(t.numbers);
  c.counts = {t.within, t.exceeds, t.undecided, t.vacuous, t.checked()};
  c.nonfinite_mismatch = t.nonfinite_mismatch;
  c.hash = t.hash;
  c.proof_hash = t.proof_hash;
  c.ratio = t.worst_ratio;
  c.acceptable_max = t.acceptable_max;
  c.error_ulp_max = t.error_max;
  if (t.numbers == 0) return;
  c.acceptable_mean = t.acceptable_sum / n;
  c.error_ulp_mean = t.error_sum / n;
  c.bias_ulp = t.signed_sum / n;
  const double variance = t.square_sum / n - c.bias_ulp * c.bias_ulp;
  c.bias_z = variance > 0 ? c.bias_ulp / std::sqrt(variance / n) : 0;
}

OutputCheck check_of(const FirstRung& o, const Ladder& ladder, const PassInfo& pass,
                     const Sizes& sizes) {
  OutputCheck c;
  c.tensor = o.tensor;
  fill_statistics(o.tally, c);
  c.histogram = UlpHistogram(o.histogram);
  c.by_theorem = o.by_theorem;
  c.rungs.mpfr = ladder.decided();
  c.rungs.dd = c.counts.checked - o.open.size();
  c.blocks.total = static_cast<std::uint64_t>(pass.parts[o.part].blocks(sizes));
  c.blocks.certified =
      c.blocks.total - blocks_of(pass.parts[o.part], sizes, o.tensor, ladder.open()).size();
  if (o.tally.worst < 0) return c;
  const Exact& e = o.worst.exact;
  c.worst_exact = e;
  c.worst.index = static_cast<std::uint64_t>(o.tally.worst);
  c.worst.got = o.worst.got;
  c.worst.low = e.kind == Exact::Class::finite ? e.high + (e.low - e.radius) : e.high;
  c.worst.high = e.kind == Exact::Class::finite ? e.high + (e.low + e.radius) : e.high;
  c.worst.bound = o.worst.radius;
  return c;
}

}  // namespace

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

std::vector<OutputCheck> finish(const Op& op, const Call& call, std::vector<FirstRung> outputs,
                                int most_bits) {
  const PassInfo& pass = op.pass(call.direction);
  std::vector<Ladder> ladders;
  for (FirstRung& o : outputs) ladders.emplace_back(o);
  const auto all_done = [&] {
    return std::all_of(ladders.begin(), ladders.end(), [](const Ladder& l) { return l.is_done(); });
  };
  ReferenceArrays sharper(pass.tensors.size());
  for (int bits = 128; bits <= most_bits && !all_done(); bits *= 2) {
    op.reference_mpfr(call, bits, choose_blocks(pass, call.sizes, outputs, ladders), sharper);
    for (std::size_t o = 0; o < outputs.size(); ++o)
      ladders[o].take(sharper[static_cast<std::size_t>(outputs[o].tensor)]);
  }
  std::vector<OutputCheck> checks;
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    ladders[o].drop_closed(true);
    join(outputs[o]);
    checks.push_back(check_of(outputs[o], ladders[o], pass, call.sizes));
  }
  return checks;
}

std::vector<OutputCheck> certify(const Op& op, const Call& call, const BoundArrays& bounds,
                                 int most_bits) {
  const auto views = call.judged();
  ReferenceArrays reference(views.size());
  op.reference_dd(call, reference);
  std::vector<FirstRung> outputs = judged_outputs(op, call);
  for (FirstRung& o : outputs) {
    const auto t = static_cast<std::size_t>(o.tensor);
    tally_all({views[t], bounds[t].value.data(), bounds[t].radius.data(), reference[t].exact.data(),
               reference[t].gauge.data(), o.judge},
              o);
    o.by_theorem = bounds[t].by_theorem;
  }
  return finish(op, call, std::move(outputs), most_bits);
}

std::string hash_text(std::uint64_t hash) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text = "sum64:";
  for (int shift = 60; shift >= 0; shift -= 4) text += digits[(hash >> shift) & 15];
  return text;
}

}  // namespace opbound
