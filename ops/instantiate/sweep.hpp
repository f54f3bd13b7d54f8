// One element of a sweep: inputs from its index, the kernel, its bound, the definition in fp64, the
// verdict; and the loops over elements on the host and on the device.
#pragma once

#include <atomic>
#include <utility>

#include "ops/instantiate/walk.hpp"
#include "ops/parallel.hpp"
#include "ops/precision.hpp"
#include "ops/sweep.hpp"
#include "reference/fp64.hpp"

namespace opbound {
namespace detail {

/// A team of one lane, on the host or the device.
struct Solo : LaneSums {
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

/// One value for each input; only output `wanted` is kept.
template <class R, int wanted>
struct SoloIo {
  const Sweep& sweep;
  const double (&inputs)[max_tensors];
  R* result;
  double* gauge = nullptr;

  OPBOUND_HD R get(int t, std::int64_t) const { return from<R>(inputs[t]); }
  OPBOUND_HD std::int64_t index(int, std::int64_t) const { return 0; }
  OPBOUND_HD bool is_finite(int t, std::int64_t) const { return detail::is_finite(inputs[t]); }
  OPBOUND_HD double exact(int t, std::int64_t) const { return inputs[t]; }
  OPBOUND_HD Format format(int t) const { return format_of(sweep.element[t]); }
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
template <class Op, class Pass, class Part, int output, class T>
struct SweptElements {
  Sweep sweep;
  Problem<Op> problem;  ///< all dimensions 1
  Judge judge;

  /// The tally of elements first, first + stride, ... below last, in this order; sink.open(k) where
  /// fp64 does not decide.
  template <class Sink>
  OPBOUND_HD Tally tally(std::int64_t first, std::int64_t last, std::int64_t stride,
                         const Sink& sink) const {
    Tally total;
    OPBOUND_ROLLED for (std::int64_t k = first; k < last; k += stride) {
      JudgedElement e;
      take_kernel(k, e);
      take_definition(k, e);
      total.hash += element_hash(k, encode(judge.store.format, e.got));
      judge.first(e, k, sink, total);
    }
    return total;
  }

 private:
  using Bound = Tracked<T, Own>;

  template <class R, class F>
  OPBOUND_HD void with_io(std::int64_t k, F run) const {
    constexpr int tensors = static_cast<int>(Pass::tensors.size());
    const std::uint64_t index = sweep.index_of(k);
    double inputs[max_tensors];
    for (int t = 0; t < tensors; ++t) inputs[t] = sweep.operand[t].at(index);
    R result{};
    double gauge = 0;
    run(SoloIo<R, output>{sweep, inputs, &result, &gauge}, result, gauge);
  }

  /// The bound's run is our kernel: its values are the kernel's, bit for bit (the law of
  /// bounds/tracked.hpp; tests/test_device.cpp compares them with the launched kernel's).
  OPBOUND_HD void take_kernel(std::int64_t k, JudgedElement& e) const {
    with_io<Bound>(k, [&](const auto& io, const Bound& bound, double) {
      Part::template kernel<Bound>(Solo{}, problem, io, 0);
      e.value = to_double(bound);
      e.got = round_to(judge.store.format, e.value);
      e.radius = detail::claimed_radius(bound);
    });
  }
  OPBOUND_HD void take_definition(std::int64_t k, JudgedElement& e) const {
    with_io<CertifiedFp64>(k, [&](const auto& io, const CertifiedFp64& exact, const double& gauge) {
      Part::template define<CertifiedFp64>(Solo{}, problem, io, 0);
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

/// Calls f(elements) with the swept elements for this sweep; false where there is none.
template <class Op, class Pass, class F>
bool with_swept_elements(const Sweep& sweep, int wanted, F f) {
  bool found = false;
  for_each_swept<Pass>([&]<class Part, int output>() {
    if (output != wanted) return;
    const Judge judge = sweep.judge_of(output);
    Problem<Op> problem{from_bytes<typename Op::Attributes>(sweep.attributes), sweep.variant, {}};
    problem.sizes.fill(1);
    if (sweep.compute != fp32) return;
    found = true;
    f(SweptElements<Op, Pass, Part, output, float>{sweep, problem, judge});
  });
  return found;
}

template <class Op, class F>
bool with_swept_elements(const Sweep& sweep, int wanted, F f) {
  if (sweep.direction == Direction::forward)
    return with_swept_elements<Op, typename Op::forward>(sweep, wanted, f);
  if constexpr (HasBackward<Op>) {
    if (sweep.direction == Direction::backward_local)
      return with_swept_elements<Op, typename Op::backward>(sweep, wanted, f);
  }
  return false;
}

/// One run's tally: lane t takes elements t, t + W, ..., as everywhere.
template <class Elements, class Team, class Sink>
OPBOUND_HD Tally sweep_run(const Team& team, const Elements& elements, std::int64_t run,
                           std::int64_t count, const Sink& sink) {
  const std::int64_t first = run * run_length, left = count - first;
  const std::int64_t last = left < run_length ? count : first + run_length;
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
    return detail::with_swept_elements<Op>(sweep, output, [&](const auto& elements) {
      parallel_for(last - first, run_length, [&](std::int64_t r) {
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
