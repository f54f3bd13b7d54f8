// The own kernel of an op on the host, and its algorithm in another order of summation.
#pragma once

#include <bit>
#include <concepts>

#include "bounds/along_tree.hpp"
#include "ops/instantiate/walk.hpp"

namespace opbound {

namespace detail {

/// For tensors whose floating-point elements are all contiguous and stored as T: loads that the
/// compiler sees through.
template <std::floating_point T>
struct DirectIo : PlainIo<T> {
  static bool suits(const Bindings& b) {
    constexpr Element stored = std::same_as<T, float> ? Element::fp32 : Element::fp64;
    for (int t = 0; t < b.count; ++t) {
      const TensorView& v = b.view[t];
      if (v.data == nullptr || !is_float(v.element)) continue;
      const bool is_aligned = std::bit_cast<std::uintptr_t>(v.data) % alignof(T) == 0;
      if (v.element != stored || !b.contiguous[t] || !is_aligned) return false;
    }
    return true;
  }

  T get(int t, std::int64_t i) const { return pointer(t)[i]; }
  /// NaN as `store` writes it.
  void put(int t, std::int64_t i, T value) const {
    constexpr double canonical = std::numeric_limits<double>::quiet_NaN();
    pointer(t)[i] = value == value ? value : static_cast<T>(canonical);
  }

 private:
  T* pointer(int t) const { return static_cast<T*>(this->tensors.view[t].data); }
};

}  // namespace detail

template <class Op>
struct KernelOf {
  static void run(const Call& c) { run_by(HostTeam<team_width>{}, c); }

  static bool run_along(const Call& c, const SumTree& tree, Products products) {
    std::atomic<bool> is_used = false;
    run_by(AlongTree{{}, &tree, products, &is_used}, c);
    return is_used;
  }

 private:
  template <class Team>
  static void run_by(const Team& team, const Call& c) {
    if (!c.forward.empty()) run_pass<typename Op::forward>(team, c, c.forward);
    if constexpr (detail::HasBackward<Op>) {
      if (!c.backward.empty()) run_pass<typename Op::backward>(team, c, c.backward);
    }
  }

  template <class Pass, class Team>
  static void run_pass(const Team& team, const Call& c, std::span<const TensorView> views) {
    detail::with_compute_type(c.compute, [&]<class T>() {
      const PlainIo<T> io{bind(views)};
      if constexpr (std::same_as<Team, HostTeam<team_width>> && std::floating_point<T>) {
        if (detail::DirectIo<T>::suits(io.tensors))
          return run_parts<Pass, T>(team, c, views, detail::DirectIo<T>{io});
      }
      run_parts<Pass, T>(team, c, views, io);
    });
  }

  template <class Pass, class T, class Team, class Io>
  static void run_parts(const Team& team, const Call& c, std::span<const TensorView> views,
                        const Io& io) {
    const Problem<Op> problem = detail::problem_of<Op>(c, c.variant);
    detail::for_each_part<Pass>([&]<class Part>() {
      // A part's second body for speed gives the same bits, which a test compares.
      if constexpr (requires { typename Part::host_tile; } &&
                    std::same_as<Team, HostTeam<team_width>> && std::floating_point<T>) {
        if (Part::host_tile::serves(problem)) return Part::host_tile::template run<T>(problem, io);
      }
      const std::int64_t blocks = Part::blocks(c.sizes);
      const std::int64_t work = detail::work_of<Part>(c, views, blocks);
      parallel_for(blocks, work,
                   [&](std::int64_t b) { Part::template kernel<T>(team, problem, io, b); });
    });
  }
};

}  // namespace opbound
