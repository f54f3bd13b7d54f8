#include "distributed/schedule.hpp"

#include <algorithm>
#include <bit>

#include "bounds/reveal.hpp"
#include "ops/all_reduce.hpp"

namespace opbound {
namespace {

constexpr bool is_power(std::int32_t n) { return std::has_single_bit(static_cast<unsigned>(n)); }

/// The largest power of two that is at most n.
constexpr std::int32_t power_below(std::int32_t n) {
  return static_cast<std::int32_t>(std::bit_floor(static_cast<unsigned>(n)));
}

/// Depth of node k of a binary tree whose root is 0.
constexpr std::int32_t depth_of(std::int32_t k) {
  return static_cast<std::int32_t>(std::bit_width(static_cast<unsigned>(k) + 1)) - 1;
}

/// Ranks that may all have what all others have: a machine's.
constexpr std::int32_t most_direct_ranks = 64;

/// Gathers transfers; each half of a collective begins after the rounds of the one before.
class Builder {
 public:
  void add(std::int32_t from, std::int32_t to, std::int32_t round) {
    put(from, to, round, Combine::add);
  }
  void add_all(std::int32_t from, std::int32_t to) { put(from, to, 0, Combine::add_all); }
  void copy(std::int32_t from, std::int32_t to, std::int32_t round) {
    put(from, to, round, Combine::copy);
  }
  /// What comes next begins when all so far is done.
  void begin_phase() { start_ = end_; }

  std::vector<Transfer> take() {
    std::stable_sort(all_.begin(), all_.end(),
                     [](const Transfer& a, const Transfer& b) { return a.round < b.round; });
    return std::move(all_);
  }

 private:
  void put(std::int32_t from, std::int32_t to, std::int32_t round, Combine combine) {
    all_.push_back({from, to, start_ + round, combine});
    end_ = std::max(end_, start_ + round + 1);
  }

  std::vector<Transfer> all_;
  std::int32_t start_ = 0, end_ = 0;
};

/// Chunk c from rank c + 1 once around to rank c.
void reduce_ring(Builder& b, std::int32_t ranks, std::int32_t c) {
  for (std::int32_t k = 0; k + 1 < ranks; ++k) b.add((c + 1 + k) % ranks, (c + 2 + k) % ranks, k);
}
void spread_ring(Builder& b, std::int32_t ranks, std::int32_t c) {
  for (std::int32_t k = 0; k + 1 < ranks; ++k) b.copy((c + k) % ranks, (c + k + 1) % ranks, k);
}

/// Node k's sum is its own, + that of 2k + 1, + that of 2k + 2; `rank_of` says who node k is.
template <class F>
void reduce_tree(Builder& b, std::int32_t nodes, F rank_of) {
  const std::int32_t deepest = depth_of(nodes - 1);
  for (std::int32_t k = nodes - 1; k > 0; --k) {
    const std::int32_t parent = (k - 1) / 2;
    const std::int32_t round = 2 * (deepest - depth_of(k)) + (k % 2 == 0 ? 1 : 0);
    b.add(rank_of(k), rank_of(parent), round);
  }
}
template <class F>
void spread_tree(Builder& b, std::int32_t nodes, F rank_of) {
  for (std::int32_t k = 1; k < nodes; ++k) b.copy(rank_of((k - 1) / 2), rank_of(k), depth_of(k));
}

/// Each group's chain ends at its last rank, and these are the nodes of a tree.
struct Groups {
  std::int32_t ranks, group;

  std::int32_t count() const { return (ranks + group - 1) / group; }
  std::int32_t last(std::int32_t g) const { return std::min((g + 1) * group, ranks) - 1; }

  void reduce(Builder& b) const {
    for (std::int32_t r = 0; r + 1 < ranks; ++r)
      if ((r + 1) % group != 0) b.add(r, r + 1, r % group);
    b.begin_phase();
    reduce_tree(b, count(), [&](std::int32_t g) { return last(g); });
  }
  void spread(Builder& b) const {
    spread_tree(b, count(), [&](std::int32_t g) { return last(g); });
    b.begin_phase();
    for (std::int32_t g = 0; g < count(); ++g)
      for (std::int32_t r = last(g); r > g * group; --r) b.copy(r, r - 1, last(g) - r);
  }
};

/// Ranks from P on fold onto those P below; then halves of what is left are exchanged over P/2,
/// P/4, ..., 1: chunk c stays with ranks whose bits are c's.
void reduce_halving(Builder& b, std::int32_t ranks, std::int32_t c) {
  const std::int32_t power = power_below(ranks);
  for (std::int32_t r = power; r < ranks; ++r) b.add(r, r - power, 0);
  std::int32_t round = 1;
  for (std::int32_t d = power / 2; d > 0; d /= 2, ++round)
    for (std::int32_t low = 0; low < d; ++low) {
      const std::int32_t to = (c & ~(d - 1)) | low;
      b.add(to ^ d, to, round);
    }
}
void spread_doubling(Builder& b, std::int32_t ranks, std::int32_t c) {
  const std::int32_t power = power_below(ranks);
  std::int32_t round = 0;
  for (std::int32_t d = 1; d < power; d *= 2, ++round)
    for (std::int32_t low = 0; low < d; ++low) {
      const std::int32_t from = (c & ~(d - 1)) | low;
      b.copy(from, from ^ d, round);
    }
  for (std::int32_t r = power; r < ranks; ++r) b.copy(r - power, r, round);
}

/// Halving along the tree: neighbours first, then pairs of pairs.
void reduce_balanced(Builder& b, std::int32_t ranks, std::int32_t c) {
  std::int32_t round = 0;
  for (std::int32_t d = 1; d < ranks; d *= 2, ++round)
    for (std::int32_t to = c & (2 * d - 1); to < ranks; to += 2 * d) b.add(to ^ d, to, round);
}
void spread_balanced(Builder& b, std::int32_t ranks, std::int32_t c) {
  std::int32_t round = 0;
  for (std::int32_t d = ranks / 2; d > 0; d /= 2, ++round)
    for (std::int32_t from = c & (2 * d - 1); from < ranks; from += 2 * d)
      b.copy(from, from ^ d, round);
}

/// Every rank gets what every other one has.
void reduce_direct(Builder& b, std::int32_t ranks) {
  for (std::int32_t to = 0; to < ranks; ++to)
    for (std::int32_t from = 0; from < ranks; ++from)
      if (from != to) b.add_all(from, to);
}

void reduce(Builder& b, const Schedule& s, std::int32_t chunk) {
  const std::int32_t n = s.ranks;
  switch (s.order) {
    case all_reduce::ring:
      return reduce_ring(b, n, chunk);
    case all_reduce::halving_doubling:
      return reduce_halving(b, n, chunk);
    case all_reduce::balanced_tree:
      return reduce_balanced(b, n, chunk);
    case all_reduce::hierarchical:
      return Groups{n, s.group}.reduce(b);
    case all_reduce::direct:
      return reduce_direct(b, n);
    default:
      return reduce_tree(b, n, [&](std::int32_t k) { return chunk == 0 ? k : n - 1 - k; });
  }
}

void spread(Builder& b, const Schedule& s, std::int32_t chunk) {
  const std::int32_t n = s.ranks;
  switch (s.order) {
    case all_reduce::ring:
      return spread_ring(b, n, chunk);
    case all_reduce::halving_doubling:
      return spread_doubling(b, n, chunk);
    case all_reduce::balanced_tree:
      return spread_balanced(b, n, chunk);
    case all_reduce::hierarchical:
      return Groups{n, s.group}.spread(b);
    case all_reduce::direct:
      return;  // all ranks have the sum
    default:
      return spread_tree(b, n, [&](std::int32_t k) { return chunk == 0 ? k : n - 1 - k; });
  }
}

}  // namespace

std::string_view refusal(const Schedule& s) {
  if (s.ranks < 1 || s.group < 1) return "at least one rank";
  if (s.order == all_reduce::balanced_tree && !is_power(s.ranks)) return "a power of two of ranks";
  if (s.order == all_reduce::direct && s.ranks > most_direct_ranks)
    return "at most 64 ranks, each of which has all others' elements";
  if (s.order == all_reduce::any_order) return "an order that is known";
  const bool has_shards = s.order == all_reduce::ring || s.order == all_reduce::balanced_tree ||
                          (s.order == all_reduce::halving_doubling && is_power(s.ranks));
  const bool is_sharded =
      s.collective == Collective::reduce_scatter || s.collective == Collective::all_gather;
  if (is_sharded && !has_shards) return "an order that leaves each rank a shard";
  const bool has_root = s.order == all_reduce::ring || s.order == all_reduce::binary_tree;
  if (s.collective == Collective::broadcast && !has_root) return "an order that has a root";
  return "";
}

std::int32_t chunk_count(const Schedule& s) {
  if (s.collective == Collective::broadcast) return 1;
  switch (s.order) {
    case all_reduce::ring:
    case all_reduce::balanced_tree:
      return s.ranks;
    case all_reduce::halving_doubling:
      return power_below(s.ranks);
    case all_reduce::double_tree:
      return 2;
    default:
      return 1;
  }
}

Chunk chunk_of(const Schedule& s, std::int64_t elements, std::int32_t chunk) {
  const std::int64_t chunks = chunk_count(s), length = (elements + chunks - 1) / chunks;
  const std::int64_t first = std::min(chunk * length, elements);
  return {first, std::min(length, elements - first)};
}

std::vector<Transfer> transfers_of(const Schedule& s, std::int32_t chunk) {
  Builder builder;
  if (adds(s.collective)) reduce(builder, s, chunk);
  builder.begin_phase();
  if (s.collective != Collective::reduce_scatter) spread(builder, s, chunk);
  std::vector<Transfer> all = builder.take();
  const auto last = std::find_if(all.rbegin(), all.rend(),
                                 [](const Transfer& t) { return t.combine == Combine::add; });
  if (last != all.rend()) last->combine = Combine::last_add;
  return all;
}

SumTree tree_of(const Schedule& s, std::int32_t chunk) {
  SumTree tree{s.ranks, {}};
  std::vector<std::int64_t> held(static_cast<std::size_t>(s.ranks));
  for (std::size_t r = 0; r < held.size(); ++r) held[r] = static_cast<std::int64_t>(r);
  for (std::int64_t r = 1; s.order == all_reduce::direct && r < s.ranks; ++r)
    tree.nodes.push_back({r == 1 ? 0 : s.ranks + r - 2, r});
  for (const Transfer& t : transfers_of(s, chunk)) {
    if (t.combine == Combine::copy || t.combine == Combine::add_all) continue;
    const auto from = static_cast<std::size_t>(t.from), to = static_cast<std::size_t>(t.to);
    tree.nodes.push_back({held[to], held[from]});
    held[to] = s.ranks + std::ssize(tree.nodes) - 1;
  }
  return tree;
}

bool has_one_order(const Schedule& s, std::int64_t elements) {
  const std::int64_t chunks = std::min<std::int64_t>(chunk_count(s), elements);
  const SumTree first = tree_of(s, 0);
  for (std::int32_t c = 1; c < chunks; ++c)
    if (!is_same_order(tree_of(s, c), first)) return false;
  return true;
}

std::vector<int> all_orders() {
  std::vector<int> orders;
  for (std::size_t v = 0; v < all_reduce::variants.size(); ++v)
    if (v != all_reduce::any_order) orders.push_back(static_cast<int>(v));
  return orders;
}

std::string_view name_of_order(int order) {
  return all_reduce::variants[static_cast<std::size_t>(order)].name;
}

}  // namespace opbound
