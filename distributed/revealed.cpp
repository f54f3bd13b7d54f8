#include "distributed/revealed.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "distributed/engine_provider.hpp"

namespace opbound {
namespace {

/// A tree in words that do not hang on which operand stands first: children by their first leaf.
std::string canonical(const SumTree& tree) {
  struct Named {
    std::int64_t first;
    std::string words;
  };
  std::vector<Named> nodes;
  for (std::int64_t leaf = 0; leaf < tree.leaves; ++leaf)
    nodes.push_back({leaf, std::to_string(leaf)});
  for (const auto& children : tree.nodes) {
    std::vector<Named> sorted;
    for (const std::int64_t c : children) sorted.push_back(nodes[static_cast<std::size_t>(c)]);
    std::ranges::sort(sorted, {}, &Named::first);
    std::string words;
    for (const Named& n : sorted) words += (words.empty() ? "(" : "+") + n.words;
    nodes.push_back({sorted.front().first, words + ")"});
  }
  return nodes.empty() ? "" : nodes.back().words;
}

/// Is it what one of the order's chunks is added along?
bool is_order(const std::string& tree, int order, std::int32_t ranks, std::int32_t group) {
  const Schedule s{Collective::all_reduce, order, ranks, group};
  if (!refusal(s).empty()) return false;
  for (std::int32_t c = 0; c < chunk_count(s); ++c)
    if (canonical(tree_of(s, c)) == tree) return true;
  return false;
}

std::string_view word(Answer answer) {
  return answer == Answer::yes ? "yes" : answer == Answer::no ? "no" : "not asked";
}

}  // namespace

void EngineProvider::run(const Op& op, const Call& call) const {
  detail::require(op.name == all_reduce::name && call.sizes[0] == engine_.ranks(),
                  "an engine runs the all-reduce of its ranks");
  const auto a = from_bytes<all_reduce::Attributes>(call.attributes);
  const TensorView x = call.forward[all_reduce::forward::x],
                   y = call.forward[all_reduce::forward::y];
  const Format output = format_of(y.element);
  const Reducer reducer{call.compute, a.hop == all_reduce::Hop::output ? output : call.compute,
                        a.reduction, a.divides, call.sizes[0]};
  const Schedule schedule{Collective::all_reduce, order_, engine_.ranks(),
                          static_cast<std::int32_t>(a.group)};
  const std::int64_t n = call.sizes[1];
  Buffers buffers;
  for (std::int32_t k = 0; k < engine_.local_ranks(); ++k) {
    auto& own = buffers.emplace_back(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < n; ++i) {
      const double given = x.at((engine_.first_rank() + k) * n + i);
      own[static_cast<std::size_t>(i)] =
          reducer.kept(engine_.averages() ? round_to(reducer.compute, given) : reducer.term(given));
    }
  }
  engine_.run(schedule, reducer, buffers);
  std::vector<std::byte> bytes;
  for (const auto& own : buffers) {
    const auto own_bytes = std::as_bytes(std::span(own));
    bytes.insert(bytes.end(), own_bytes.begin(), own_bytes.end());
  }
  const std::vector<std::byte> all = engine_.gather(bytes);
  for (std::int64_t i = 0; i < n; ++i)
    y.set(i, round_to(output, detail::read_element<double>(all.data(), i)));
}

RevealedOrder reveal_order(const CollectiveSpec& collective, Engine& engine,
                           std::int64_t most_calls) {
  CaseSpec spec = collective.spec;
  spec.variant = all_reduce::any_order;  // its sum is replayed along whatever is found
  spec.declared = {all_reduce::any_order};
  const EngineProvider provider(engine, collective.order);
  RevealedOrder found;
  found.sum =
      reveal_case(spec, sums_of(*spec.op, Direction::forward).front(), provider, most_calls);
  if (!found.sum.found.refusal.empty()) return found;
  const auto a = from_bytes<all_reduce::Attributes>(spec.attributes);
  const std::string tree = canonical(found.sum.found.tree);
  for (std::size_t v = 0; v < all_reduce::variants.size(); ++v)
    if (is_order(tree, static_cast<int>(v), engine.ranks(), static_cast<std::int32_t>(a.group)))
      found.like.append(found.like.empty() ? "" : ", ").append(all_reduce::variants[v].name);
  return found;
}

std::string to_string(const RevealedOrder& order) {
  const RevealedSum& s = order.sum;
  if (!s.found.refusal.empty()) return "no order: " + s.found.refusal;
  std::string text = "the first element's order " + to_string(s.found.tree);
  text += order.like.empty() ? ", of no schedule here" : ", as " + order.like;
  text += s.is_replayed ? fmt::format("; replayed, every bit of {} elements", s.replayed_elements)
                        : "; not that of every element: " + s.note;
  return text + fmt::format("; {} runs; same bits again: {}, unaligned: {}", s.found.calls,
                            word(s.same_bits.again), word(s.same_bits.unaligned));
}

}  // namespace opbound
