#include "bounds/reveal.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <stdexcept>

namespace opbound {
namespace {

constexpr std::int64_t most_terms = 1 << 14;  // a chain is as deep as it is long

struct NoTree : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Miscounted : NoTree {
  using NoTree::NoTree;
};

constexpr const char* no_tree =
    "pairs of terms meet as in no tree: errors are compensated, or the order depends on the data";

/// Builds the tree of a set of terms from the leaves' common ancestors with one of them, group by
/// group, each group's own tree first.
class Revealer {
 public:
  Revealer(std::int64_t n, std::int64_t counts, std::int64_t most_calls, const SumProbe& probe)
      : n_(n), counts_(counts), most_calls_(most_calls), probe_(probe) {}

  SumTree tree() {
    if (n_ > most_terms) throw NoTree("more than " + std::to_string(most_terms) + " terms");
    std::vector<std::int64_t> all(static_cast<std::size_t>(n_));
    for (std::int64_t i = 0; i < n_; ++i) all[static_cast<std::size_t>(i)] = i;
    const Subtree whole = build(all);
    SumTree t{n_, {}};
    if (n_ > 1) place(whole.root, t);
    return t;
  }

  std::int64_t calls() const { return calls_; }

 private:
  struct Node {
    std::vector<std::int64_t> children;  ///< below n: terms; else n + place in nodes_
    std::int64_t leaves;                 ///< as the probes counted them
  };
  struct Subtree {
    std::int64_t root;
    std::int64_t leaves;  ///< of the root's node, which may have more than the subtree's terms
  };

  double ask(const std::vector<ProbeTerm>& terms) {
    if (++calls_ > most_calls_) throw NoTree("it would take more probes than are allowed");
    return probe_(terms);
  }

  /// How many terms are below the lowest common ancestor of i and j.
  std::int64_t common_leaves(std::int64_t i, std::int64_t j) {
    std::int64_t outside = 0;
    for (std::int64_t first = 0; first < n_;) {
      std::vector<ProbeTerm> terms(static_cast<std::size_t>(n_), ProbeTerm::zero);
      std::int64_t units = 0;
      for (; first < n_ && units < counts_; ++first) {
        if (first == i || first == j) continue;
        terms[static_cast<std::size_t>(first)] = ProbeTerm::unit;
        ++units;
      }
      if (units == 0 && n_ > 2) continue;  // what was left is i or j
      terms[static_cast<std::size_t>(i)] = ProbeTerm::plus;
      terms[static_cast<std::size_t>(j)] = ProbeTerm::minus;
      const double left = ask(terms);
      if (!(left >= 0 && left <= static_cast<double>(units) && left == std::floor(left)))
        throw Miscounted("a probe of " + std::to_string(units) + " units gave " +
                         std::to_string(left));
      outside += static_cast<std::int64_t>(left);
    }
    return n_ - outside;
  }

  std::int64_t add_node(std::vector<std::int64_t> children, std::int64_t leaves) {
    nodes_.push_back({std::move(children), leaves});
    return n_ + std::ssize(nodes_) - 1;
  }
  Node& node(std::int64_t place) { return nodes_[static_cast<std::size_t>(place - n_)]; }

  /// From a term in the middle: of a chain, what comes before it is one group.
  Subtree build(const std::vector<std::int64_t>& terms) {
    const std::int64_t middle = terms[terms.size() / 2];
    Subtree now{middle, 1};
    std::map<std::int64_t, std::vector<std::int64_t>> by_ancestor;
    for (const std::int64_t k : terms)
      if (k != middle) by_ancestor[common_leaves(middle, k)].push_back(k);
    for (const auto& [leaves, group] : by_ancestor) {
      const Subtree other = build(group);
      const std::int64_t count = std::ssize(group);
      if (other.leaves < count || leaves <= count) throw NoTree(no_tree);
      if (other.leaves == count) {
        now = {add_node({now.root, other.root}, leaves), leaves};
      } else {  // more than the group: the middle term was inside that node
        node(other.root).children.push_back(now.root);
        now = {other.root, other.leaves};
        if (other.leaves != leaves) throw NoTree(no_tree);
      }
    }
    return now;
  }

  /// Appends the nodes below `root`, children first; gives the leaves below it.
  std::int64_t place(std::int64_t root, SumTree& to) {
    if (root < n_) return 1;
    std::int64_t leaves = 0;
    std::vector<std::int64_t> children = node(root).children;
    for (std::int64_t& child : children) {
      leaves += place(child, to);
      if (child >= n_) child = n_ + std::ssize(to.nodes) - 1;
    }
    if (leaves != node(root).leaves) throw NoTree(no_tree);
    std::sort(children.begin(), children.end());
    to.nodes.push_back(std::move(children));
    return leaves;
  }

  std::int64_t n_, counts_, most_calls_, calls_ = 0;
  const SumProbe& probe_;
  std::vector<Node> nodes_;
};

/// A chain of single terms in rising order, from `first` on, is written as first..last.
class Writer {
 public:
  explicit Writer(const SumTree& tree) : tree_(tree) {
    for (const auto& children : tree.nodes) {
      std::int64_t least = tree.leaves;
      for (const std::int64_t c : children) least = std::min(least, first_of(c));
      first_.push_back(least);
    }
  }

  std::string text(std::int64_t child) const {
    if (child < tree_.leaves) return std::to_string(child);
    if (const auto run = chain(child); run && run->first + 2 <= run->second)
      return "(" + std::to_string(run->first) + ".." + std::to_string(run->second) + ")";
    std::string joined;
    const auto& children = node(child);
    const bool is_binary = children.size() == 2;
    for (const std::int64_t c : ordered(children))
      joined += (joined.empty() ? "" : is_binary ? "+" : ",") + text(c);
    return (is_binary ? "(" : "sum(") + joined + ")";
  }

  /// First and last term of (((a + (a+1)) + (a+2)) + ...).
  std::optional<std::pair<std::int64_t, std::int64_t>> chain(std::int64_t child) const {
    const auto& children = node(child);
    if (children.size() != 2) return std::nullopt;
    const std::int64_t a = children[0], b = children[1];  // sorted: terms come first
    if (b < tree_.leaves) return b == a + 1 ? std::optional(std::pair(a, b)) : std::nullopt;
    if (a >= tree_.leaves) return std::nullopt;
    auto before = chain(b);
    if (!before || a != before->second + 1) return std::nullopt;
    return std::pair(before->first, a);
  }

 private:
  const std::vector<std::int64_t>& node(std::int64_t child) const {
    return tree_.nodes[static_cast<std::size_t>(child - tree_.leaves)];
  }

  /// By the first term below each.
  std::vector<std::int64_t> ordered(std::vector<std::int64_t> children) const {
    std::sort(children.begin(), children.end(),
              [&](std::int64_t a, std::int64_t b) { return first_of(a) < first_of(b); });
    return children;
  }
  std::int64_t first_of(std::int64_t child) const {
    return child < tree_.leaves ? child : first_[static_cast<std::size_t>(child - tree_.leaves)];
  }

  const SumTree& tree_;
  std::vector<std::int64_t> first_;  ///< the least term below each node
};

}  // namespace

Revealed reveal_sum(std::int64_t n, std::int64_t counts, std::int64_t most_calls,
                    const SumProbe& probe) {
  Revealer revealer(n, counts, most_calls, probe);
  Revealed found;
  try {
    found.tree = revealer.tree();
  } catch (const Miscounted& e) {
    found.refusal = e.what();
    found.is_miscounted = true;
  } catch (const NoTree& e) {
    found.refusal = e.what();
  }
  found.calls = revealer.calls();
  return found;
}

std::int64_t height(const SumTree& tree) {
  std::vector<std::int64_t> heights;
  for (const auto& children : tree.nodes) {
    std::int64_t most = 0;
    for (const std::int64_t c : children)
      if (c >= tree.leaves)
        most = std::max(most, heights[static_cast<std::size_t>(c - tree.leaves)]);
    heights.push_back(most + std::ssize(children) - 1);
  }
  return heights.empty() ? 0 : heights.back();
}

bool is_same_order(const SumTree& a, const SumTree& b) {
  if (a.leaves != b.leaves || a.nodes.size() != b.nodes.size()) return false;
  std::map<std::vector<std::int64_t>, std::int64_t> numbers;  // of a node by its children's numbers
  const auto number_of = [&](const SumTree& tree) {
    std::vector<std::int64_t> nodes;
    for (std::vector<std::int64_t> children : tree.nodes) {
      for (std::int64_t& c : children)
        if (c >= tree.leaves) c = nodes[static_cast<std::size_t>(c - tree.leaves)];
      std::sort(children.begin(), children.end());
      const auto next = tree.leaves + std::ssize(numbers);
      nodes.push_back(numbers.try_emplace(std::move(children), next).first->second);
    }
    return nodes.empty() ? 0 : nodes.back();
  };
  return number_of(a) == number_of(b);
}

std::string to_string(const SumTree& tree) {
  constexpr std::int64_t most_legible = 1000;
  if (tree.nodes.empty()) return tree.leaves == 1 ? "0" : "";
  const Writer writer(tree);
  const std::int64_t root = tree.leaves + std::ssize(tree.nodes) - 1, additions = height(tree);
  if (additions > most_legible && !writer.chain(root))
    return "(a tree of height " + std::to_string(additions) + ")";
  return writer.text(root);
}

}  // namespace opbound
