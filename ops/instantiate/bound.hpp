// The running error bound of an op's kernel, for its own or any other kernel that keeps a contract.
#pragma once

#include "bounds/any_order.hpp"
#include "ops/instantiate/walk.hpp"

namespace opbound {

template <class Op>
struct BoundOf {
  static BoundArrays run(const Call& c, const Contract& contract, int variant) {
    return detail::with_compute_type(c.compute, [&]<class T>() {
      switch (contract.order) {
        case Contract::Order::own:
          return passes<T, Own>(c, contract, variant, HostTeam<team_width>{});
        case Contract::Order::any:
          return passes<T, Foreign>(c, contract, variant, AnyOrderTeam{});
        default:
          return passes<T, Foreign>(c, contract, variant, TreeTeam{&contract.tree});
      }
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
      if (c.direction == Direction::backward_full) {
        saved = run_pass<typename Op::forward, T, K>(c, c.forward, problem, contract, team, {});
        for (std::size_t t = 0; t < saved.size(); ++t)
          round_saved<T, K>(saved[t], format_of(c.forward[t].element));
      }
      return run_pass<typename Op::backward, T, K>(c, c.backward, problem, contract, team, saved);
    } else {
      detail::require(false, "this op has no backward pass");
      return {};
    }
  }

  /// The saved tensor is stored: ours is rounded, and so is theirs, |fl(v') - v'| <= u |v'| + eta.
  template <class T, class K>
  static void round_saved(BoundArray& a, const Format& store) {
    for (std::size_t i = 0; i < a.value.size(); ++i) {
      const double stored = round_to(store, a.value[i]);
      const double mine = abs(stored - a.value[i]);
      a.value[i] = stored;
      if (!detail::is_finite(stored)) {
        if (mine != 0) a.radius[i] = detail::infinite;
        continue;
      }
      double local = mine;
      if constexpr (K::foreign) {
        const bool further = store.digits < Facts<T>::format.digits;
        local = further ? detail::local_term({store.unit_roundoff(), store.eta()},
                                             abs(stored) + mine, a.spread[i])
                        : 0;
        a.spread[i] = detail::up(a.spread[i] + local + mine);
      }
      a.radius[i] = detail::up(a.radius[i] + local);
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
    return result;
  }

  static TrackedArray array_of(BoundArray& a) {
    return {a.value.data(), a.radius.data(), a.spread.data()};
  }
};

}  // namespace opbound
