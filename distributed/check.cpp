#include "distributed/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

#include "distributed/engine_provider.hpp"
#include "distributed/reproducible.hpp"
#include "distributed/runs.hpp"
#include "reports/text.hpp"
#include "suites/run.hpp"

namespace opbound {
namespace {

std::uint64_t bits_in(const Format& f, double x) { return encode(f, round_to(f, x)); }

/// Elements of [first, first + count) that differ in bits, and the first of them.
struct Difference {
  std::uint64_t checked = 0, differing = 0;
  std::size_t rank = 0, index = 0;

  void take(const Format& f, double a, double b, std::size_t r, std::size_t i) {
    ++checked;
    if (bits_in(f, a) == bits_in(f, b)) return;
    if (differing++ > 0) return;
    rank = r;
    index = i;
  }
};

constexpr std::string_view promises_nothing = "the library promises nothing";

class Check {
 public:
  Check(const CollectiveSpec& collective, Engine& engine)
      : c_(collective),
        engine_(engine),
        schedule_(schedule_of(collective)),
        reducer_(reducer_of(collective.spec)),
        prepared_(prepare(collective.spec)),
        x_(prepared_.tensors.find("x")->second),
        runs_(collective, engine, x_),
        output_(collective.spec.precision.output),
        n_(collective.spec.sizes[1]) {}

  std::vector<Record> run() {
    find_nonfinite();  // before anything is added to it
    const Buffers results = runs_.whole();
    if (engine_.first_rank() == 0) judge(results);
    compare_runs(results);
    if (adds(c_.collective)) {
      compare_with_op(results);
      compare_sizes(results);
      compare_addresses(results);
      compare_numbers_of_ranks(results);
      compare_divisions(results);
      find_soiled(results);
    }
    return engine_.first_rank() == 0 ? std::move(records_) : std::vector<Record>{};
  }

 private:
  bool keeps_order() const { return engine_.traits().keeps_order; }

  // ---- records

  void put(std::string part, const Difference& d, const std::string& contract) {
    if (engine_.first_rank() != 0) return;
    Record r = described(c_, engine_, std::move(part));
    r.kind = CheckKind::agreement;
    r.contract = r.bound_source = contract;
    r.counts = {d.checked - d.differing, d.differing, 0, 0, d.checked};
    r.verdict = d.differing > 0 ? Verdict::exceeds : Verdict::within;
    if (d.differing > 0) r.reason = fmt::format("first: rank {}, element {}", d.rank, d.index);
    records_.push_back(std::move(r));
  }
  /// `found`: what a run that promises nothing gave; its counts say it, but no verdict.
  void skip(std::string part, std::string why, const Difference& found = {}) {
    if (engine_.first_rank() != 0) return;
    Record r = described(c_, engine_, std::move(part));
    r.kind = CheckKind::agreement;
    r.verdict = Verdict::skipped;
    r.counts.within = found.checked - found.differing;
    r.counts.checked = found.checked;
    r.reason = std::move(why);
    records_.push_back(std::move(r));
  }

  /// Of the ranks that both have.
  Difference between(const Buffers& a, const Buffers& b) const {
    Difference d;
    for (std::size_t r = 0; r < std::min(a.size(), b.size()); ++r)
      for (std::size_t i = 0; i < a[r].size(); ++i) d.take(output_, a[r][i], b[r][i], r, i);
    return d;
  }

  /// Holds a further run against the first; where nothing is promised, tells what was found.
  void compare(const std::string& part, const Buffers& results, bool is_promised,
               std::string_view why_not, const std::function<Buffers()>& other) {
    const Difference d = between(results, other());
    if (is_promised) return put(part, d, "bits of the first run");
    skip(part, fmt::format("{}; {} of {} elements differ", why_not, d.differing, d.checked), d);
  }

  /// The all-reduce's error against its bound: one record for each output, of which it has one.
  std::vector<Record> judged(const Buffers& results) {
    Tensor& y = prepared_.tensors.find("y")->second;
    for (std::int64_t i = 0; i < n_; ++i) y.set(i, results[0][static_cast<std::size_t>(i)]);
    const EngineProvider provider(engine_);
    return judge_case(c_.spec, provider, prepared_,
                      provider.contract(*c_.spec.op, c_.spec.declared));
  }

  void judge(const Buffers& results) {
    if (!adds(c_.collective)) {
      put("y", between(results, Buffers(results.size(), runs_.given(0, 0, n_))),
          "bits of the sender");
      return;
    }
    for (Record& r : judged(results)) {
      const Record whose = described(c_, engine_, r.part);
      r.environment = whose.environment;
      r.ranks = whose.ranks;
      r.schedule = whose.schedule;
      r.contract += engine_.traits().settings;
      records_.push_back(std::move(r));
    }
    // of libraries too: "MPI requires that all processes participating in these operations receive
    // identical results" (MPI 1.1, 4.9.3, and every version since), and ncclAllReduce "leaves
    // identical copies of the result on each recvbuff" (NCCL's user guide)
    if (results.size() > 1)
      put("ranks", between(Buffers(results.size(), results[0]), results), "bits of rank 0");
  }

  /// What only moves has the sender's bits, whoever moves it. Sums of a library may come in another
  /// order each time: MPI only advises its implementors against that.
  void compare_runs(const Buffers& results) {
    const bool is_promised = keeps_order() || !adds(c_.collective);
    compare("again", results, is_promised, promises_nothing, [&] {
      engine_.gather({});  // a barrier: nobody is late from the run before
      return runs_.whole({.disturbance = 1});
    });
  }

  void compare_with_op(const Buffers& results) {
    if (!keeps_order()) return skip("order", "the library's order of additions is not known");
    if (c_.spec.variant == all_reduce::any_order)
      return skip("order", "the order of a minimum or maximum changes no value");
    if (engine_.first_rank() != 0) return;
    Prepared kernel = prepare(c_.spec);
    c_.spec.op->run(kernel.call);
    put("order", between(results, {kernel.tensors.find("y")->second.values()}),
        "bits of the op's kernel");
  }

  void compare_sizes(const Buffers& results) {
    if (n_ < 2) return;
    const std::string why_not = keeps_order()
                                    ? "an element's order hangs on its place in the message"
                                    : std::string(promises_nothing);
    compare("size", results, keeps_order() && has_one_order(schedule_, n_), why_not, [&] {
      Buffers parts = runs_.reduced(reducer_, 0, n_ / 3 + 1);
      const Buffers rest = runs_.reduced(reducer_, n_ / 3 + 1, n_ - n_ / 3 - 1);
      for (std::size_t r = 0; r < parts.size(); ++r)
        parts[r].insert(parts[r].end(), rest[r].begin(), rest[r].end());
      return parts;
    });
  }

  void compare_addresses(const Buffers& results) {
    if (!engine_.traits().has_addresses) return;
    compare("alignment", results, keeps_order(), promises_nothing,
            [&] { return runs_.whole({.offset = 1}); });
  }

  void compare_numbers_of_ranks(const Buffers& results) {
    if (c_.order != all_reduce::balanced_tree || c_.collective != Collective::all_reduce ||
        !keeps_order())
      return;
    Difference d;
    for (std::int32_t ranks = 1; ranks < schedule_.ranks; ranks *= 2) {
      Schedule fewer = schedule_;
      fewer.ranks = ranks;
      Buffers buffers =
          runs_.of_local_ranks(0, n_, [&](std::int32_t rank, std::vector<double>& own) {
            if (rank >= ranks) return;
            add_share(
                reducer_, share_of(schedule_.ranks, ranks, rank),
                [&](std::int64_t m, std::span<double> elements) {
                  std::ranges::copy(runs_.given(m, 0, n_), elements.begin());
                },
                own);
          });
      engine_.run(fewer, reducer_, buffers);
      const Buffers got = runs_.gathered(std::move(buffers));
      for (std::size_t r = 0; r < static_cast<std::size_t>(ranks); ++r)
        for (std::size_t i = 0; i < got[r].size(); ++i)
          d.take(output_, results[0][i], got[r][i], r, i);
    }
    put("number of ranks", d, "bits of all ranks");
  }

  /// By powers of two every division is exact, unless a term or the result underflows: partial sums
  /// do not, being multiples of the smallest number of the format that they are stored in (Hauser
  /// 1996), as the terms are.
  void compare_divisions(const Buffers& results) {
    if (!reducer_.is_mean()) return;
    if (!keeps_order()) return skip("mean", "the library's order may change");
    const double ranks = static_cast<double>(reducer_.terms);
    const double share = round_to(reducer_.compute, 1 / ranks);
    if (!std::has_single_bit(static_cast<std::uint64_t>(reducer_.terms)))
      return skip("mean", fmt::format("{} is no power of two: terms divided before are off by a "
                                      "factor of 1 + {}",
                                      reducer_.terms, legible(std::fma(share, ranks, -1.0))));
    Reducer other = reducer_;
    other.divides = reducer_.divides == all_reduce::Divides::after ? all_reduce::Divides::before
                                                                   : all_reduce::Divides::after;
    const Buffers divided = runs_.reduced(other, 0, n_);
    const double least = std::max({reducer_.compute.smallest_normal(),
                                   reducer_.wire.smallest_normal(), output_.smallest_normal()});
    Difference d;
    for (std::size_t i = 0; i < results[0].size(); ++i) {
      const auto is_exact = [&](std::int64_t r) {
        const double part = x_.at(r * n_ + static_cast<std::int64_t>(i)) / ranks;
        return reducer_.kept(round_to(reducer_.compute, part)) == part;
      };
      bool counts = std::isfinite(results[0][i]) && std::isfinite(divided[0][i]) &&
                    std::abs(results[0][i]) >= least;
      for (std::int64_t r = 0; counts && r < reducer_.terms; ++r) counts = is_exact(r);
      if (counts) d.take(output_, results[0][i], divided[0][i], 0, i);
    }
    put("mean", d, "bits of the mean that divides the other way");
  }

  void find_soiled(const Buffers& results) {
    std::vector<TensorRange> tensors = c_.tensors;
    if (tensors.empty()) tensors.push_back({"x", {0, n_}});
    if (!engine_.traits().has_streams) return;
    const Buffers late = runs_.whole({.late = tensors});
    if (engine_.first_rank() != 0) return;
    const Difference d = between(results, late);
    if (!keeps_order()) return judge_late(d, late, tensors);
    put("streams", d, "bits without injected delays");
    if (d.differing == 0) return;
    std::string soiled;
    for (const TensorRange& t : tensors) {
      const auto first = static_cast<std::size_t>(t.range.first);
      bool differs = false;
      for (std::size_t i = first; i < first + static_cast<std::size_t>(t.range.count); ++i)
        differs = differs || bits_in(output_, results[0][i]) != bits_in(output_, late[0][i]);
      if (differs) soiled += (soiled.empty() ? "" : ", ") + t.name;
    }
    records_.back().reason = "read before they are written: " + soiled;
  }

  /// A library may add in another order when streams are late: other bits are no finding, but the
  /// bound of any order holds for these too, and what was not written is not within it.
  void judge_late(const Difference& d, const Buffers& late,
                  const std::vector<TensorRange>& tensors) {
    const bool is_off_anyway = std::ranges::any_of(records_, [](const Record& before) {
      return before.part == "y" && before.verdict == Verdict::exceeds;
    });
    const Record r = judged(late).front();
    if (r.verdict != Verdict::exceeds || is_off_anyway)
      return skip(
          "streams",
          fmt::format("{}; {} of {} elements differ", promises_nothing, d.differing, d.checked), d);
    put("streams", {r.counts.checked, r.counts.exceeds}, "the bound of y");
    for (const TensorRange& t : tensors) {
      const auto worst = static_cast<std::int64_t>(r.worst ? r.worst->index : 0);
      if (worst >= t.range.first && worst < t.range.first + t.range.count)
        records_.back().reason = "read before they are written: " + t.name + " at least";
    }
  }

  void find_nonfinite() {
    const Buffers own = runs_.of_local_ranks(0, n_, [](std::int32_t, std::vector<double>&) {});
    const auto origin = first_nonfinite(engine_, own, c_.tensors);
    if (origin) skip("nonfinite", to_string(*origin) + " is the first that is no number");
  }

  const CollectiveSpec& c_;
  Engine& engine_;
  Schedule schedule_;
  Reducer reducer_;
  Prepared prepared_;
  const Tensor& x_;
  CollectiveRuns runs_;
  Format output_;
  std::int64_t n_;
  std::vector<Record> records_;
};

}  // namespace

std::vector<Record> check_collective(const CollectiveSpec& collective, Engine& engine) {
  const auto without_result = [&](Verdict verdict, const std::string& why) {
    if (engine.first_rank() != 0) return std::vector<Record>{};
    Record r = described(collective, engine, "");
    r.verdict = verdict;
    r.reason = why;
    return std::vector<Record>{r};
  };
  if (const std::string_view wanted = refusal(schedule_of(collective)); !wanted.empty())
    return without_result(Verdict::skipped, "needs " + std::string(wanted));
  if (!collective.spec.op->allows(collective.spec.attributes, collective.spec.variant))
    return without_result(Verdict::skipped, "no such order with these attributes");
  try {
    return Check(collective, engine).run();
  } catch (const Unavailable& e) {
    return without_result(Verdict::skipped, e.what());
  } catch (const ProviderFailure& e) {
    return without_result(Verdict::failed, e.what());
  }
}

}  // namespace opbound
