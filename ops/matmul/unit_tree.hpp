// Sums of products on a matrix unit along one tree, revealed by probing (bounds/reveal.hpp). Host
// only.
//
// A node of products, up to b of them, and of one other node's sum at most, is a step of the unit;
// a node of two sums is their addition in fp32. Any other tree is no tree of a unit.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "bounds/along_tree.hpp"
#include "ops/matmul/unit.hpp"

namespace opbound::detail {

/// How many of a node's children are sums.
inline std::int64_t sums_among(const std::vector<std::int64_t>& children, std::int64_t leaves) {
  return std::count_if(children.begin(), children.end(),
                       [&](std::int64_t c) { return c >= leaves; });
}

inline bool is_tree_of(const MatrixUnit& u, const SumTree& tree) {
  return std::all_of(tree.nodes.begin(), tree.nodes.end(), [&](const auto& children) {
    const std::int64_t sums = sums_among(children, tree.leaves);
    const std::int64_t products = std::ssize(children) - sums;
    return products == 0 ? sums == 2 : sums <= 1 && products <= u.block;
  });
}

/// The tree that a team adds along, if it has one of k terms that is of this unit.
template <class Team>
const SumTree* unit_tree(const Team& team, const MatrixUnit& u, std::int64_t k) {
  if constexpr (requires { team.tree->leaves; }) {
    if (team.tree == nullptr || team.tree->leaves != k || k < 2 || !is_tree_of(u, *team.tree))
      return nullptr;
    if constexpr (requires { team.is_used; })
      if (team.is_used != nullptr) team.is_used->store(true, std::memory_order_relaxed);
    return team.tree;
  }
  return nullptr;
}

/// step(products, sum or null) for every step of the unit, a + b for every addition.
template <class T, class Step>
T along_unit_tree(const SumTree& tree, Step step) {
  std::vector<T> results;
  results.reserve(tree.nodes.size());
  for (const auto& children : tree.nodes) {
    std::vector<std::int64_t> products;
    std::vector<T> sums;
    for (const std::int64_t c : children) {
      if (c < tree.leaves)
        products.push_back(c);
      else
        sums.push_back(results[static_cast<std::size_t>(c - tree.leaves)]);
    }
    results.push_back(products.empty() ? sums[0] + sums[1]
                                       : step(products, sums.empty() ? nullptr : sums.data()));
  }
  return results.back();
}

/// What other number types keep: the sum over the reals.
template <class T>
struct UnitSumAlong {
  template <class A, class B>
  static T run(const SumTree& tree, const MatrixUnit&, const Format&, const Format&, A a, B b) {
    return along_unit_tree<T>(tree, [&](const auto& products, const T* sum) {
      T total = sum == nullptr ? from<T>(0.0) : *sum;
      for (const std::int64_t i : products) total = total + a(i) * b(i);
      return total;
    });
  }
};

template <>
struct UnitSumAlong<float> {
  template <class A, class B>
  static float run(const SumTree& tree, const MatrixUnit& u, const Format& fa, const Format& fb,
                   A a, B b) {
    const auto step = [&](const auto& products, const float* sum) {
      UnitBlock x;
      for (const std::int64_t i : products) {
        x.a[x.count] = factor(fa, to_double(a(i)));
        x.b[x.count++] = factor(fb, to_double(b(i)));
      }
      const double before = sum == nullptr ? 0 : to_double(*sum);
      const UnitResult r = unit_step(u, aligned_format(u, fa), aligned_format(u, fb), x, before);
      return static_cast<float>(r.value);
    };
    return along_unit_tree<float>(tree, step);
  }
};

/// A step of theirs errs by at most
///   N max(2^-f M, 2^(-126 - f)) + 2^(1 - p) |result| + 2^(-125 - p),
/// N addends that are not 0, M the largest of them, products as their aligned exponents have them
/// (G1 of bounds/README.md 6.1), whichever way each addend and the result are cut. Theirs is where
/// ours may be, the spreads, apart.
template <class K>
struct UnitSumAlong<Tracked<float, K>> {
  using F = Tracked<float, K>;

  template <class A, class B>
  static F run(const SumTree& tree, const MatrixUnit& u, const Format& fa, const Format& fb, A a,
               B b) {
    return along_unit_tree<F>(tree, [&](const auto& products, const F* sum) {
      Step step{u, aligned_format(u, fa), aligned_format(u, fb)};
      if (sum != nullptr) step.start(*sum);
      for (const std::int64_t i : products) step.take(taken(fa, a(i)), taken(fb, b(i)));
      return step.result();
    });
  }

 private:
  struct Step {
    const MatrixUnit& u;
    const Format a, b;
    UnitBlock block{};
    double before = 0, radius = 0, spread = 0, largest = 0;
    double magnitudes = 0;  ///< of theirs, added up
    int addends = 0;
    bool is_known = true;

    void add(double most) {
      largest = max(largest, most);
      magnitudes += most;
      addends += most == 0 ? 0 : 1;
    }

    void start(const F& sum) {
      before = to_double(sum);
      radius = sum.radius;
      if constexpr (K::foreign) spread = sum.spread;
      is_known = is_finite(before) && is_finite(radius) && is_finite(spread);
      add(sum.far());
    }

    void take(const F& p, const F& q) {
      block.a[block.count] = to_double(p);
      block.b[block.count++] = to_double(q);
      radius += times(p.far(), q.radius) + times(q.far(), p.radius) + times(p.radius, q.radius);
      spread += times(p.size(), q.spread) + times(q.far(), p.spread);
      add((aligned_magnitude(a, to_double(p)) + p.spread) *
          (aligned_magnitude(b, to_double(q)) + q.spread));
    }

    /// Of each sum above at most 2 b + 2 roundings of positive terms: 2^-44 covers them.
    F result() const {
      constexpr double grow = 1 + 0x1p-44;
      const UnitResult ours = unit_step(u, a, b, block, before);
      F r{};
      r.value = static_cast<float>(ours.value);
      const double cut =
          addends * power_of_two(-u.fraction) * max(largest, fp32.smallest_normal()) * grow;
      const double sum = abs(ours.value) + (ours.lost + spread + cut) * grow;
      const double local =
          addends == 0
              ? 0
              : (cut + power_of_two(1 - u.digits) * sum + power_of_two(-125 - u.digits)) * grow;
      if (!is_known || !is_finite(ours.value) || !(magnitudes * grow + local <= fp32.largest()))
        return not_finite<float, K>(r.value, false);
      r.radius = up((radius + local) * grow);
      if constexpr (K::foreign) r.spread = up((spread + local + ours.lost) * grow);
      return r;
    }
  };
};

}  // namespace opbound::detail
