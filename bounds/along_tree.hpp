// One order of summation, as a tree, and the team that adds along it. Host only.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "ops/team.hpp"

namespace opbound {

/// A summation tree over n leaves: nodes in the order in which they can be added. Children below n
/// are leaves; child n + k is the result of node k. The last node is the sum.
struct SumTree {
  std::int64_t leaves = 0;
  std::vector<std::vector<std::int64_t>> nodes;
};

/// What becomes of a product that is a term: rounded before it is added, or fused with the addition
/// that takes it in. Where two products are added, one of them is rounded.
enum class Products : std::uint8_t { rounded, fused, fused_first };
inline constexpr std::array all_products{Products::rounded, Products::fused, Products::fused_first};

/// Adds plain numbers along a tree, every sum of that many terms; all other reductions in the own
/// kernels' order. The children of a node are added in turn.
struct AlongTree : HostTeam<team_width> {
  const SumTree* tree;
  Products products;
  std::atomic<bool>* is_used;  ///< set by every sum that has the tree's length; null: not asked

  template <class F>
  auto sum(std::int64_t n, F term) const {
    using T = decltype(term(std::int64_t{0}));
    if (tree->leaves != n || n < 2) return HostTeam::sum(n, term);
    return along<T>(term, [&](T total, std::int64_t leaf) { return total + term(leaf); });
  }

  template <class F>
  auto serial_sum(std::int64_t n, F term) const {
    if (tree->leaves != n || n < 2) return HostTeam::serial_sum(n, term);
    return sum(n, term);
  }

  template <class A, class B>
  auto dot(std::int64_t n, A a, B b) const {
    using T = decltype(a(std::int64_t{0}));
    if (tree->leaves != n || n < 2) return HostTeam::dot(n, a, b);
    return along<T>([&](std::int64_t leaf) { return a(leaf) * b(leaf); },
                    [&](T total, std::int64_t leaf) {
                      return products == Products::rounded ? total + a(leaf) * b(leaf)
                                                           : fma(a(leaf), b(leaf), total);
                    });
  }

 private:
  /// A node starts from the sum of another one, if it has one, so that its leaves can be fused.
  template <class T, class First, class Add>
  T along(First first, Add add) const {
    if (is_used != nullptr) is_used->store(true, std::memory_order_relaxed);
    std::vector<T> results;
    results.reserve(tree->nodes.size());
    for (const auto& children : tree->nodes) {
      std::size_t start = 0;
      while (start + 1 < children.size() && children[start] < tree->leaves) ++start;
      if (children[start] < tree->leaves && products != Products::fused_first) start = 0;
      const auto result_of = [&](std::int64_t child) {
        return results[static_cast<std::size_t>(child - tree->leaves)];
      };
      T total =
          children[start] < tree->leaves ? first(children[start]) : result_of(children[start]);
      for (std::size_t k = 0; k < children.size(); ++k)
        if (k != start)
          total =
              children[k] < tree->leaves ? add(total, children[k]) : total + result_of(children[k]);
      results.push_back(total);
    }
    return results.back();
  }
};

}  // namespace opbound
