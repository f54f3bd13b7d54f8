// The running error bound of an op's kernel, for its own or any other kernel that keeps a contract.
#pragma once

#include <atomic>

#include "bounds/any_order.hpp"
#include "bounds/growth.hpp"
#include "ops/instantiate/walk.hpp"
#include "ops/precision.hpp"

namespace opbound {

/// How a theorem reads exact inputs and offers its bounds.
struct TheoremIo {
  Bindings tensors;
  BoundArrays* result;
  std::vector<std::atomic<std::int64_t>>* sharper;

  double get(int t, std::int64_t i) const { return tensors.load_at(t, i); }
  std::int64_t index(int t, std::int64_t i) const { return tensors.index_at(t, i); }
  /// What is known so far of an output of this block.
  double bound(int t, std::int64_t i) const {
    return (*result)[static_cast<std::size_t>(t)].radius[static_cast<std::size_t>(i)];
  }
  void limit(int t, std::int64_t i, double bound) const {
    double& radius = (*result)[static_cast<std::size_t>(t)].radius[static_cast<std::size_t>(i)];
    if (!(bound < radius)) return;
    radius = bound;
    ++(*sharper)[static_cast<std::size_t>(t)];
  }
};

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
    if (contract.theorems && loads_exactly<Pass, T>(views)) {
      const Arithmetic arithmetic = arithmetic_of<T, K>(contract);
      detail::for_each_part<Pass>(
          [&]<class Part>() { apply_theorem<Part>(c, problem, views, arithmetic, result); });
    }
    return result;
  }

  /// A theorem speaks of exact inputs: the compute format must hold the stored ones.
  template <class Pass, class T>
  static bool loads_exactly(std::span<const TensorView> views) {
    for (std::size_t t = 0; t < views.size(); ++t) {
      const Element e = views[t].element;
      if (!Pass::tensors[t].is_written() && is_float(e) &&
          store_rounds(format_of(e), Facts<T>::format))
        return false;
    }
    return true;
  }

  /// What a theorem of a part may assume under this contract.
  template <class T, class K>
  static Arithmetic arithmetic_of(const Contract& contract) {
    Arithmetic a{Facts<T>::u, Facts<T>::format.eta(), contract.functions, nullptr};
    if constexpr (K::foreign) {
      a.sum_growth = [](std::int64_t n, double u) { return static_cast<double>(n) * u; };
    } else {
      if (Facts<T>::format == fp64)
        for (std::size_t f = 0; f < a.functions.ulp.size(); ++f)
          a.functions.ulp[f] = fp64_error_ulp(static_cast<Function>(f));
      a.sum_growth = [](std::int64_t n, double u) {
        return growth(static_cast<double>(sum_height(n, team_width)), u);
      };
    }
    return a;
  }

  /// A part's own theorem, where it has one, replaces the running bound where it is sharper.
  template <class Part>
  static void apply_theorem(const Call& c, const Problem<Op>& problem,
                            std::span<const TensorView> views, const Arithmetic& arithmetic,
                            BoundArrays& result) {
    if constexpr (requires(TheoremIo io) { Part::theorem(problem, io, arithmetic, 0); }) {
      std::vector<std::atomic<std::int64_t>> sharper(views.size());
      TheoremIo io{bind(views), &result, &sharper};
      const std::int64_t blocks = Part::blocks(c.sizes);
      parallel_for(blocks, detail::work_of<Part>(c, views, blocks),
                   [&](std::int64_t b) { Part::theorem(problem, io, arithmetic, b); });
      for (std::size_t t = 0; t < views.size(); ++t) result[t].by_theorem += sharper[t];
    }
  }

  static TrackedArray array_of(BoundArray& a) {
    return {a.value.data(), a.radius.data(), a.spread.data()};
  }
};

}  // namespace opbound
