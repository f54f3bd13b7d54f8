// The running error bound of an op's kernel, for its own or any other kernel that keeps a contract.
#pragma once

#include "bounds/any_order.hpp"
#include "ops/instantiate/theorem.hpp"

namespace opbound {

template <class Op>
struct BoundOf {
  static BoundArrays run(const Call& c, const Contract& contract, int variant) {
    return detail::with_compute_type(c.compute, [&]<class T>() {
      if (contract.order == Contract::Order::own)
        return passes<T, Own>(c, contract, variant, HostTeam<team_width>{});
      const bool has_tree = contract.order == Contract::Order::tree;
      return passes<T, Foreign>(c, contract, variant,
                                TreeTeam(has_tree ? &contract.tree : nullptr));
    });
  }

 private:
  template <class T, class K, class Team>
  static BoundArrays passes(const Call& c, const Contract& contract, int variant,
                            const Team& team) {
    const Problem<Op> problem = detail::problem_of<Op>(c, variant);
    if (c.direction == Direction::forward)
      return run_pass<typename Op::forward, T, K>(c, c.forward, problem, contract, team, {});
    if constexpr (detail::HasBackward<Op>) {
      BoundArrays saved;
      if (c.direction == Direction::backward_full && detail::reads_saved_tensors<Op>()) {
        saved = run_pass<typename Op::forward, T, K>(c, c.forward, problem, contract, team, {});
        for (std::size_t t = 0; t < saved.size(); ++t)
          round_saved<T, K>(saved[t], c.forward[t].element);
      }
      return run_pass<typename Op::backward, T, K>(c, c.backward, problem, contract, team, saved);
    } else {
      detail::require(false, "this op has no backward pass");
      return {};
    }
  }

  /// The backward pass reads the saved tensor as it was stored.
  template <class T, class K>
  static void round_saved(BoundArray& a, Element stored) {
    if (!is_float(stored)) return;
    for (std::size_t i = 0; i < a.value.size(); ++i) {
      Tracked<T, K> x(from<T>(a.value[i]));
      x.radius = a.radius[i];
      if constexpr (K::foreign) x.spread = a.spread[i];
      x = stored_in(format_of(stored), x);
      a.value[i] = to_double(x);
      a.radius[i] = x.radius;
      if constexpr (K::foreign) a.spread[i] = x.spread;
    }
  }

  template <class Pass, class T, class K, class Team>
  static BoundArrays run_pass(const Call& c, std::span<const TensorView> views,
                              const Problem<Op>& problem, const Contract& contract,
                              const Team& team, BoundArrays saved) {
    BoundArrays result(views.size());
    TrackedIo<T, K> io{bind(views), {}};
    for (std::size_t t = 0; t < views.size(); ++t) {
      const TensorSpec& spec = Pass::tensors[t];
      if (spec.is_written()) {
        const auto count = static_cast<std::size_t>(views[t].count());
        result[t].value.resize(count);
        result[t].radius.resize(count);
        result[t].spread.resize(K::foreign ? count : 0);
        io.tracked[t] = array_of(result[t]);
        io.tracked[t].is_scratch = spec.role == Role::scratch;
      } else if (spec.role == Role::saved && !saved.empty()) {
        const auto place = static_cast<std::size_t>(detail::place_in_forward<Op>(spec.name));
        io.tracked[t] = array_of(saved[place]);
      }
    }
    detail::for_each_part<Pass>([&]<class Part>() {
      const std::int64_t blocks = Part::blocks(c.sizes);
      parallel_for(blocks, detail::work_of<Part>(c, views, blocks), [&](std::int64_t b) {
        const Foreign::Scope declared(contract.functions);
        Part::template kernel<Tracked<T, K>>(team, problem, io, b);
      });
    });
    if (contract.theorems && detail::loads_exactly<Pass>(views, Facts<T>::format)) {
      const Arithmetic arithmetic = detail::arithmetic_of<T, K>(contract);
      detail::for_each_part<Pass>([&]<class Part>() {
        if constexpr (detail::HasTheorem<Part, Op>)
          apply_theorem<Part>(c, problem, views, arithmetic, result);
      });
    }
    return result;
  }

  /// A part's own theorem replaces the running bound where it is sharper.
  template <class Part>
  static void apply_theorem(const Call& c, const Problem<Op>& problem,
                            std::span<const TensorView> views, const Arithmetic& arithmetic,
                            BoundArrays& result) {
    TheoremIo io{bind(views), {}, {}};
    for (std::size_t t = 0; t < views.size(); ++t) {
      io.radius[t] = result[t].radius.data();
      io.by_theorem[t] = &result[t].by_theorem;
    }
    const std::int64_t blocks = Part::blocks(c.sizes);
    parallel_for(blocks, detail::work_of<Part>(c, views, blocks),
                 [&](std::int64_t b) { Part::theorem(problem, io, arithmetic, b); });
  }

  static TrackedArray array_of(BoundArray& a) {
    return {a.value.data(), a.radius.data(), a.spread.data()};
  }
};

}  // namespace opbound
