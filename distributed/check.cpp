#include "distributed/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "distributed/engine_provider.hpp"
#include "distributed/reproducible.hpp"
#include "reports/text.hpp"
#include "suites/run.hpp"

namespace opbound {
namespace {

std::uint64_t bits_in(const Format& f, double x) { return encode(f, round_to(f, x)); }

/// Every rank's results, as they are stored.
using Results = std::vector<std::vector<double>>;

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

class Check {
 public:
  Check(const CollectiveSpec& collective, Engine& engine)
      : c_(collective),
        engine_(engine),
        schedule_(schedule_of(collective)),
        reducer_(reducer_of(collective.spec)),
        prepared_(prepare(collective.spec)),
        x_(prepared_.tensors.find("x")->second),
        output_(collective.spec.precision.output),
        n_(collective.spec.sizes[1]) {}

  std::vector<Record> run() {
    find_nonfinite();  // before anything is added to it
    const Results results = adds(c_.collective) ? reduced(schedule_, reducer_) : moved();
    if (engine_.first_rank() == 0) judge(results);
    compare("again", results, true, "", [&] {
      engine_.set_weather(1);
      Results again = adds(c_.collective) ? reduced(schedule_, reducer_) : moved();
      engine_.set_weather(0);
      return again;
    });
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
  // ---- runs

  std::vector<double> given(std::int64_t rank, std::int64_t first, std::int64_t count) const {
    std::vector<double> elements(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i)
      elements[static_cast<std::size_t>(i)] = x_.at(rank * n_ + first + i);
    return elements;
  }

  /// action(rank, elements) for the elements [first, first + count) of every rank here.
  Buffers of_local_ranks(
      std::int64_t first, std::int64_t count,
      const std::function<void(std::int32_t, std::vector<double>&)>& action) const {
    Buffers buffers;
    for (std::int32_t k = 0; k < engine_.local_ranks(); ++k) {
      const std::int32_t rank = engine_.first_rank() + k;
      buffers.push_back(given(rank, first, count));
      action(rank, buffers.back());
    }
    return buffers;
  }

  Results gathered(Buffers buffers) {
    const Element element = element_of(output_);
    const auto width = static_cast<std::size_t>(bytes_of(element));
    const std::size_t count = buffers.front().size();
    std::vector<std::byte> own(buffers.size() * count * width);
    for (std::size_t r = 0; r < buffers.size(); ++r)
      for (std::size_t i = 0; i < count; ++i)
        store(element, own.data(), static_cast<std::int64_t>(r * count + i),
              round_to(output_, buffers[r][i]));
    const std::vector<std::byte> all = engine_.gather(own);
    Results results(
        count == 0 ? static_cast<std::size_t>(engine_.ranks()) : all.size() / (count * width),
        std::vector<double>(count));
    for (std::size_t r = 0; r < results.size(); ++r)
      for (std::size_t i = 0; i < count; ++i)
        results[r][i] = load(element, all.data(), static_cast<std::int64_t>(r * count + i));
    return results;
  }

  /// Elements [first, first + count) reduced; of a scatter, every rank's shards put together.
  Results reduced(const Schedule& schedule, const Reducer& reducer, std::int64_t first,
                  std::int64_t count) {
    Buffers buffers = of_local_ranks(first, count, [&](std::int32_t, std::vector<double>& own) {
      for (double& v : own)
        v = reducer.kept(engine_.averages() ? round_to(reducer.compute, v) : reducer.term(v));
    });
    engine_.run(schedule, reducer, buffers);
    Results results = gathered(std::move(buffers));
    if (schedule.collective != Collective::reduce_scatter) return results;
    std::vector<double> whole(static_cast<std::size_t>(count));
    for (std::int32_t r = 0; r < schedule.ranks; ++r) {
      const Chunk shard = chunk_of(schedule, count, r);
      const auto& own = results[static_cast<std::size_t>(r)];
      std::copy_n(own.begin() + shard.first, shard.count, whole.begin() + shard.first);
    }
    return {whole};
  }
  Results reduced(const Schedule& schedule, const Reducer& reducer) {
    return reduced(schedule, reducer, 0, n_);
  }

  /// Rank 0's elements, told to all: whole by rank 0, or each rank's shard by that rank.
  Results moved() {
    Buffers buffers = of_local_ranks(0, n_, [&](std::int32_t rank, std::vector<double>& own) {
      const Chunk shard = c_.collective == Collective::broadcast ? Chunk{0, rank == 0 ? n_ : 0}
                                                                 : chunk_of(schedule_, n_, rank);
      own = given(0, 0, n_);
      for (std::int64_t i = 0; i < n_; ++i)
        if (i < shard.first || i >= shard.first + shard.count)
          own[static_cast<std::size_t>(i)] = std::numeric_limits<double>::quiet_NaN();
    });
    engine_.run(schedule_, reducer_, buffers);
    return gathered(std::move(buffers));
  }

  // ---- records

  Record described(std::string part) const {
    Record r = record_of(c_.spec, EngineProvider(engine_));
    r.op = name_of(c_.collective);
    r.part = std::move(part);
    r.ranks = engine_.ranks();
    if (engine_.keeps_order())
      r.schedule = all_reduce::variants[static_cast<std::size_t>(c_.order)].name;
    return r;
  }

  void put(std::string part, const Difference& d, const std::string& contract) {
    if (engine_.first_rank() != 0) return;
    Record r = described(std::move(part));
    r.kind = CheckKind::agreement;
    r.contract = r.bound_source = contract;
    r.counts = {d.checked - d.differing, d.differing, 0, 0, d.checked};
    r.verdict = d.differing > 0 ? Verdict::exceeds : Verdict::within;
    if (d.differing > 0) r.reason = fmt::format("first: rank {}, element {}", d.rank, d.index);
    records_.push_back(std::move(r));
  }
  void skip(std::string part, std::string why) {
    if (engine_.first_rank() != 0) return;
    Record r = described(std::move(part));
    r.kind = CheckKind::agreement;
    r.verdict = Verdict::skipped;
    r.reason = std::move(why);
    records_.push_back(std::move(r));
  }

  Difference between(const Results& a, const Results& b, std::size_t most_ranks) const {
    Difference d;
    for (std::size_t r = 0; r < std::min({a.size(), b.size(), most_ranks}); ++r)
      for (std::size_t i = 0; i < a[r].size(); ++i) d.take(output_, a[r][i], b[r][i], r, i);
    return d;
  }

  /// Holds a further run against the first; where nothing is promised, tells what was found.
  void compare(const std::string& part, const Results& results, bool is_promised,
               const std::string& why_not, const std::function<Results()>& other) {
    const Difference d = between(results, other(), results.size());
    if (is_promised) return put(part, d, "bits of the first run");
    skip(part, fmt::format("{}; {} of {} elements differ", why_not, d.differing, d.checked));
  }

  void judge(const Results& results) {
    if (!adds(c_.collective)) {
      put("y", between(results, Results(results.size(), given(0, 0, n_)), results.size()),
          "bits of the sender");
      return;
    }
    Tensor& y = prepared_.tensors.find("y")->second;
    for (std::int64_t i = 0; i < n_; ++i) y.set(i, results[0][static_cast<std::size_t>(i)]);
    const EngineProvider provider(engine_);
    for (Record& r : judge_case(c_.spec, provider, prepared_,
                                provider.contract(*c_.spec.op, c_.spec.declared))) {
      const Record whose = described(r.part);
      r.op = whose.op;
      r.ranks = whose.ranks;
      r.schedule = whose.schedule;
      r.contract += engine_.settings();
      records_.push_back(std::move(r));
    }
    if (results.size() > 1)
      put("ranks", between(Results(results.size(), results[0]), results, results.size()),
          "bits of rank 0");
  }

  void compare_with_op(const Results& results) {
    if (!engine_.keeps_order())
      return skip("order", "the library's order of additions is not known");
    if (c_.spec.variant == all_reduce::any_order)
      return skip("order", "the order of a minimum or maximum changes no value");
    if (engine_.first_rank() != 0) return;
    Prepared kernel = prepare(c_.spec);
    c_.spec.op->run(kernel.call);
    put("order", between(results, {kernel.tensors.find("y")->second.values()}, 1),
        "bits of the op's kernel");
  }

  void compare_sizes(const Results& results) {
    if (n_ < 2) return;
    const bool is_by_chunk = c_.order == all_reduce::ring || c_.order == all_reduce::double_tree;
    const std::string why_not = engine_.keeps_order()
                                    ? "an element's order hangs on its place in the message"
                                    : "the library promises nothing";
    compare("size", results, engine_.keeps_order() && !is_by_chunk, why_not, [&] {
      Results parts = reduced(schedule_, reducer_, 0, n_ / 3 + 1);
      const Results rest = reduced(schedule_, reducer_, n_ / 3 + 1, n_ - n_ / 3 - 1);
      for (std::size_t r = 0; r < parts.size(); ++r)
        parts[r].insert(parts[r].end(), rest[r].begin(), rest[r].end());
      return parts;
    });
  }

  void compare_addresses(const Results& results) {
    if (!engine_.set_offset(1)) return;
    compare("alignment", results, engine_.keeps_order(), "the library promises nothing",
            [&] { return reduced(schedule_, reducer_); });
    engine_.set_offset(0);
  }

  void compare_numbers_of_ranks(const Results& results) {
    if (c_.order != all_reduce::balanced_tree || c_.collective != Collective::all_reduce ||
        !engine_.keeps_order())
      return;
    Difference d;
    for (std::int32_t ranks = 1; ranks < schedule_.ranks; ranks *= 2) {
      Schedule fewer = schedule_;
      fewer.ranks = ranks;
      Buffers buffers = of_local_ranks(0, n_, [&](std::int32_t rank, std::vector<double>& own) {
        if (rank >= ranks) return;
        add_share(
            reducer_, share_of(schedule_.ranks, ranks, rank),
            [&](std::int64_t m, std::span<double> elements) {
              std::ranges::copy(given(m, 0, n_), elements.begin());
            },
            own);
      });
      engine_.run(fewer, reducer_, buffers);
      const Results got = gathered(std::move(buffers));
      for (std::size_t r = 0; r < static_cast<std::size_t>(ranks); ++r)
        for (std::size_t i = 0; i < got[r].size(); ++i)
          d.take(output_, results[0][i], got[r][i], r, i);
    }
    put("number of ranks", d, "bits of all ranks");
  }

  /// By powers of two every division is exact, unless a term or the result underflows: partial sums
  /// do not, being multiples of the smallest number of the format that they are stored in (Hauser
  /// 1996), as the terms are.
  void compare_divisions(const Results& results) {
    if (!reducer_.is_mean()) return;
    if (!engine_.keeps_order()) return skip("mean", "the library's order may change");
    const double ranks = static_cast<double>(reducer_.terms);
    const double share = round_to(reducer_.compute, 1 / ranks);
    if (!std::has_single_bit(static_cast<std::uint64_t>(reducer_.terms)))
      return skip("mean", fmt::format("{} is no power of two: terms divided before are off by a "
                                      "factor of 1 + {}",
                                      reducer_.terms, legible(std::fma(share, ranks, -1.0))));
    Reducer other = reducer_;
    other.divides = reducer_.divides == all_reduce::Divides::after ? all_reduce::Divides::before
                                                                   : all_reduce::Divides::after;
    const Results divided = reduced(schedule_, other);
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

  void find_soiled(const Results& results) {
    std::vector<TensorRange> tensors = c_.tensors;
    if (tensors.empty()) tensors.push_back({"x", {0, n_}});
    if (!engine_.delay_streams(tensors)) return;
    const Results late = reduced(schedule_, reducer_);
    engine_.delay_streams({});
    const Difference d = between(results, late, results.size());
    put("streams", d, "bits without injected delays");
    if (d.differing == 0 || engine_.first_rank() != 0) return;
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

  void find_nonfinite() {
    const Buffers own = of_local_ranks(0, n_, [](std::int32_t, std::vector<double>&) {});
    const auto origin = first_nonfinite(engine_, own, c_.tensors);
    if (origin) skip("nonfinite", to_string(*origin) + " is the first that is no number");
  }

  const CollectiveSpec& c_;
  Engine& engine_;
  Schedule schedule_;
  Reducer reducer_;
  Prepared prepared_;
  const Tensor& x_;
  Format output_;
  std::int64_t n_;
  std::vector<Record> records_;
};

}  // namespace

Reducer reducer_of(const CaseSpec& spec) {
  const auto a = from_bytes<all_reduce::Attributes>(spec.attributes);
  const Format wire =
      a.hop == all_reduce::Hop::output ? spec.precision.output : spec.precision.compute;
  return {spec.precision.compute, wire, a.reduction, a.divides, spec.sizes[0]};
}

Schedule schedule_of(const CollectiveSpec& c) {
  const auto a = from_bytes<all_reduce::Attributes>(c.spec.attributes);
  return {c.collective, c.order, static_cast<std::int32_t>(c.spec.sizes[0]),
          static_cast<std::int32_t>(a.group)};
}

std::vector<Record> check_collective(const CollectiveSpec& collective, Engine& engine) {
  const auto without_result = [&](Verdict verdict, const std::string& why) {
    if (engine.first_rank() != 0) return std::vector<Record>{};
    Record r = record_of(collective.spec, EngineProvider(engine));
    r.op = name_of(collective.collective);
    r.ranks = engine.ranks();
    if (engine.keeps_order())
      r.schedule = all_reduce::variants[static_cast<std::size_t>(collective.order)].name;
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
