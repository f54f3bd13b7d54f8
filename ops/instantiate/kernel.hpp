// The own kernel of an op on the host.
#pragma once

#include "ops/instantiate/walk.hpp"

namespace opbound {

template <class Op>
struct KernelOf {
  static void run(const Call& c) {
    if (!c.forward.empty()) run_pass<typename Op::forward>(c, c.forward);
    if constexpr (detail::HasBackward<Op>) {
      if (!c.backward.empty()) run_pass<typename Op::backward>(c, c.backward);
    }
  }

 private:
  template <class Pass>
  static void run_pass(const Call& c, std::span<const TensorView> views) {
    detail::with_compute_type(c.compute, [&]<class T>() {
      const PlainIo<T> io{bind(views)};
      const Problem<Op> problem = detail::problem_of<Op>(c, c.variant);
      detail::for_each_part<Pass>([&]<class Part>() {
        const std::int64_t blocks = Part::blocks(c.sizes);
        const std::int64_t work = detail::work_of<Part>(c, views, blocks);
        parallel_for(blocks, work, [&](std::int64_t b) {
          Part::template kernel<T>(HostTeam<team_width>{}, problem, io, b);
        });
      });
    });
  }
};

}  // namespace opbound
