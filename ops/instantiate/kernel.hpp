// The own kernel of an op on the host, and its algorithm in another order of summation.
#pragma once

#include "bounds/along_tree.hpp"
#include "ops/instantiate/walk.hpp"

namespace opbound {

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
      const Problem<Op> problem = detail::problem_of<Op>(c, c.variant);
      detail::for_each_part<Pass>([&]<class Part>() {
        const std::int64_t blocks = Part::blocks(c.sizes);
        const std::int64_t work = detail::work_of<Part>(c, views, blocks);
        parallel_for(blocks, work,
                     [&](std::int64_t b) { Part::template kernel<T>(team, problem, io, b); });
      });
    });
  }
};

}  // namespace opbound
