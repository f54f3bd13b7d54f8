#include "distributed/revealed.hpp"

#include <fmt/format.h>

#include "bounds/reveal.hpp"
#include "distributed/engine_provider.hpp"

namespace opbound {
namespace {

/// Is it what one of the order's chunks is added along?
bool is_order(const SumTree& tree, int order, std::int32_t ranks, std::int32_t group) {
  const Schedule s{Collective::all_reduce, order, ranks, group};
  if (!refusal(s).empty()) return false;
  for (std::int32_t c = 0; c < chunk_count(s); ++c)
    if (is_same_order(tree_of(s, c), tree)) return true;
  return false;
}

std::string_view word(Answer answer) {
  return answer == Answer::yes ? "yes" : answer == Answer::no ? "no" : "not asked";
}

}  // namespace

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
  for (const int order : all_orders())
    if (is_order(found.sum.found.tree, order, engine.ranks(), static_cast<std::int32_t>(a.group)))
      found.like.append(found.like.empty() ? "" : ", ").append(name_of_order(order));
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
