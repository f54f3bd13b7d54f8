// One element of a sweep: inputs from its index, the kernel, its bound, the definition in fp64, the
// verdict; and the loops over elements on the host and on the device.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <utility>

#include "ops/instantiate/walk.hpp"
#include "ops/parallel.hpp"
#include "ops/precision.hpp"
#include "ops/sweep.hpp"
#include "reference/fp64.hpp"

namespace opbound {
namespace detail {

/// A team of one lane, on the host or the device.
struct Solo : LaneSums, OneByOne {
  template <class F>
  OPBOUND_HD auto sum(std::int64_t n, F term) const {
    return serial_sum(n, term);
  }
  template <class F>
  OPBOUND_HD void map(std::int64_t n, F action) const {
    for (std::int64_t i = 0; i < n; ++i) action(i);
  }
  OPBOUND_HD void barrier() const {}
};

/// What a sweep's loop is told when it is compiled, so that its code is short. Here: nothing.
struct KnownLater {
  OPBOUND_HD static double value(const Operand& o, std::uint64_t index) { return o.at(index); }
  OPBOUND_HD static Format format(const Format& f) { return f; }
  OPBOUND_HD static int variant(int v) { return v; }
  OPBOUND_HD static Judge judge(const Judge& j) { return j; }
};

/// Here: which variant it is, and that every tensor is fp32.
template <int known_variant>
struct KnownFp32 {
  static bool holds(const Sweep& sweep, int tensors) {
    const Element* const end = sweep.element + tensors;
    return sweep.variant == known_variant &&
           std::all_of(sweep.element, end, [](Element e) { return e == Element::fp32; });
  }
  OPBOUND_HD static double value(const Operand& o, std::uint64_t index) {
    if (o.values != Operand::Values::patterns) return o.at(index);
    return std::bit_cast<float>(static_cast<std::uint32_t>(index));  // all of them: 32 bits
  }
  OPBOUND_HD static Format format(const Format&) { return fp32; }
  OPBOUND_HD static int variant(int) { return known_variant; }
  OPBOUND_HD static Judge judge(Judge j) {
    j.store = {fp32, false};
    j.is_integer = false;
    return j;
  }
};

/// One value for each input; only output `wanted` is kept.
template <class R, int wanted, class Known>
struct SoloIo {
  const Sweep& sweep;
  const double (&inputs)[max_tensors];
  R* result;
  double* gauge = nullptr;

  OPBOUND_HD R get(int t, std::int64_t) const { return from<R>(inputs[t]); }
  OPBOUND_HD std::int64_t index(int, std::int64_t) const { return 0; }
  OPBOUND_HD bool is_finite(int t, std::int64_t) const { return detail::is_finite(inputs[t]); }
  OPBOUND_HD double exact(int t, std::int64_t) const { return inputs[t]; }
  OPBOUND_HD Format format(int t) const { return Known::format(format_of(sweep.element[t])); }
  OPBOUND_HD void put_index(int, std::int64_t, std::int64_t) const {}
  OPBOUND_HD void put(int t, std::int64_t i, const R& value) const {
    put(t, i, value, magnitude(value));
  }
  OPBOUND_HD void put(int t, std::int64_t i, const GaugedSum<R>& sum) const {
    put(t, i, sum.value, sum.gauge);
  }
  OPBOUND_HD void put(int t, std::int64_t, const R& value, double size) const {
    if (t != wanted) return;
    *result = value;
    if (gauge != nullptr) *gauge = size;
  }
};

/// The elements of a sweep of one output of a part.
template <class Op, class Pass, class Part, int output, class T, class Known = KnownLater>
struct SweptElements {
  Sweep sweep;
  typename Op::Attributes attributes;
  Judge judge;

  /// The tally of elements first, first + stride, ... below last, in this order; sink.open(k) where
  /// fp64 does not decide.
  template <class Sink>
  OPBOUND_HD Tally tally(std::int64_t first, std::int64_t last, std::int64_t stride,
                         const Sink& sink) const {
    Tally total;
    const Judge known = Known::judge(judge);
    OPBOUND_ROLLED for (std::int64_t k = first; k < last; k += stride) {
      JudgedElement e;
      take_kernel(k, known.store.format, e);
      take_definition(k, e);
      total.hash += element_hash(k, encode(known.store.format, e.got));
      known.first(e, k, sink, total);
    }
    return total;
  }

 private:
  using Bound = Tracked<T, Own>;

  /// All dimensions are 1.
  OPBOUND_HD Problem<Op> problem() const {
    Problem<Op> p{attributes, Known::variant(sweep.variant), {}};
    for (std::int64_t& size : p.sizes) size = 1;
    return p;
  }

  template <class R, class F>
  OPBOUND_HD void with_io(std::int64_t k, F run) const {
    constexpr int tensors = static_cast<int>(Pass::tensors.size());
    const std::uint64_t index = sweep.index_of(k);
    double inputs[max_tensors];
    for (int t = 0; t < tensors; ++t) inputs[t] = Known::value(sweep.operand[t], index);
    R result{};
    double gauge = 0;
    run(SoloIo<R, output, Known>{sweep, inputs, &result, &gauge}, result, gauge);
  }

  /// The bound's run is our kernel: its values are the kernel's, bit for bit (the law of
  /// bounds/tracked.hpp; tests/test_device.cpp compares them with the launched kernel's).
  OPBOUND_HD void take_kernel(std::int64_t k, const Format& stored, JudgedElement& e) const {
    with_io<Bound>(k, [&](const auto& io, const Bound& bound, double) {
      Part::template kernel<Bound>(Solo{}, problem(), io, 0);
      e.value = to_double(bound);
      e.got = round_to(stored, e.value);
      e.radius = detail::claimed_radius(bound);
    });
  }
  OPBOUND_HD void take_definition(std::int64_t k, JudgedElement& e) const {
    with_io<CertifiedFp64>(k, [&](const auto& io, const CertifiedFp64& exact, const double& gauge) {
      Part::template define<CertifiedFp64>(Solo{}, problem(), io, 0);
      e.exact = exact_of(exact);
      e.gauge = gauge;
    });
  }
};

/// A part whose outputs are elementwise can be swept.
template <class Part>
concept Swept = requires {
  requires Part::places_each == team_width;
};

/// Is this an output that is judged by a bound?
template <class Pass>
constexpr bool is_swept(int output) {
  const TensorSpec& t = Pass::tensors[static_cast<std::size_t>(output)];
  return t.is_judged() && t.element != "boolean" && t.element != "int64";
}

/// Calls f.template operator()<Part, output>() for every output of elementwise parts.
template <class Pass, class F>
void for_each_swept(F f) {
  for_each_part<Pass>([&]<class Part>() {
    if constexpr (Swept<Part>) {
      [&]<std::size_t... i>(std::index_sequence<i...>) {
        const auto take = [&]<int output>() {
          if constexpr (is_swept<Pass>(output)) f.template operator()<Part, output>();
        };
        (take.template operator()<Part::outputs[i]>(), ...);
      }
      (std::make_index_sequence<Part::outputs.size()>{});
    }
  });
}

/// Calls f(elements) with the swept elements for this sweep, told what can be known of it where
/// `specialises`; false where there is none.
template <class Op, class Pass, bool specialises, class F>
bool with_swept_elements_of(const Sweep& sweep, int wanted, F f) {
  bool found = false;
  for_each_swept<Pass>([&]<class Part, int output>() {
    if (output != wanted || sweep.compute != fp32) return;
    const Judge judge = sweep.judge_of(output);
    const auto attributes = from_bytes<typename Op::Attributes>(sweep.attributes);
    found = true;
    bool is_done = false;
    // each is as much code again: ops of many variants and outputs would take minutes to compile
    if constexpr (specialises && Op::variants.size() * Part::outputs.size() <= 4) {
      const auto take = [&]<class Known>() {
        if (is_done || !Known::holds(sweep, static_cast<int>(Pass::tensors.size()))) return;
        is_done = true;
        f(SweptElements<Op, Pass, Part, output, float, Known>{sweep, attributes, judge});
      };
      [&]<std::size_t... v>(std::index_sequence<v...>) {
        (take.template operator()<KnownFp32<static_cast<int>(v)>>(), ...);
      }
      (std::make_index_sequence<Op::variants.size()>{});
    }
    if (!is_done) f(SweptElements<Op, Pass, Part, output, float>{sweep, attributes, judge});
  });
  return found;
}

template <class Op, bool specialises, class F>
bool with_swept_elements(const Sweep& sweep, int wanted, F f) {
  if (sweep.direction == Direction::forward)
    return with_swept_elements_of<Op, typename Op::forward, specialises>(sweep, wanted, f);
  if constexpr (HasBackward<Op>) {
    if (sweep.direction == Direction::backward_local)
      return with_swept_elements_of<Op, typename Op::backward, specialises>(sweep, wanted, f);
  }
  return false;
}

/// One run's tally: lane t takes elements t, t + W, ..., as everywhere.
template <class Elements, class Team, class Sink>
OPBOUND_HD Tally sweep_run(const Team& team, const Elements& elements, std::int64_t run,
                           std::int64_t count, const Sink& sink) {
  const std::int64_t first = run * sweep_run_length, left = count - first;
  const std::int64_t last = left < sweep_run_length ? count : first + sweep_run_length;
  return team.template reduce<Merge>(
      last - first < team_width ? last - first : team_width,
      [&](std::int64_t lane) { return elements.tally(first + lane, last, team_width, sink); });
}

}  // namespace detail

template <class Op>
struct SweepOf {
  /// Runs [first, last) of a sweep of `count` elements; false where this output cannot be swept.
  static bool run(const Sweep& sweep, int output, std::int64_t count, std::int64_t first,
                  std::int64_t last, const TallyResult& to) {
    return detail::with_swept_elements<Op, false>(sweep, output, [&](const auto& elements) {
      parallel_for(last - first, sweep_run_length, [&](std::int64_t r) {
        to.runs[r] =
            detail::sweep_run(HostTeam<team_width>{}, elements, first + r, count, HostCounts{to});
      });
    });
  }

 private:
  /// Many threads count into one result.
  struct HostCounts {
    const TallyResult& to;

    void decided(double error) const { add(to.histogram[UlpHistogram::entry_of(error)]); }
    void open(std::int64_t k) const {
      const std::uint64_t place = add(*to.open_count);
      if (place < to.open_room) to.open[place] = k;
    }
    static std::uint64_t add(std::uint64_t& counter) {
      return std::atomic_ref(counter).fetch_add(1, std::memory_order_relaxed);
    }
  };
};

}  // namespace opbound
