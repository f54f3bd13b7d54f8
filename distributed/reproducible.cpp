#include "distributed/reproducible.hpp"

#include <bit>

#include "reports/error.hpp"

namespace opbound {
namespace {

/// The sum under a node, as it is held before it is stored.
void add_node(const Reducer& reducer, const Share& node, const Gradient& gradient,
              std::span<double> sum) {
  if (node.count == 1) {
    gradient(node.first, sum);
    for (double& x : sum) x = reducer.term(x);
    return;
  }
  const std::int64_t left = node.count - node.count / 2;
  std::vector<double> right(sum.size());
  add_node(reducer, {node.first, left}, gradient, sum);
  add_node(reducer, {node.first + left, node.count - left}, gradient, right);
  for (std::size_t i = 0; i < sum.size(); ++i)
    sum[i] = reducer.combined(reducer.kept(sum[i]), reducer.kept(right[i]));
}

}  // namespace

Share share_of(std::int64_t micro_batches, std::int32_t ranks, std::int32_t rank) {
  Share share{0, micro_batches};
  for (std::int32_t half = ranks / 2; half > 0; half /= 2) {
    const std::int64_t left = share.count - share.count / 2;
    if ((rank & half) == 0) {
      share.count = left;
    } else {
      share = {share.first + left, share.count - left};
    }
  }
  return share;
}

std::string_view reproducible_refusal(std::int64_t micro_batches, std::int32_t ranks) {
  if (ranks < 1 || !std::has_single_bit(static_cast<unsigned>(ranks)))
    return "a power of two of ranks";
  return ranks > micro_batches ? "as many micro-batches as ranks, or more" : "";
}

void add_share(const Reducer& reducer, const Share& share, const Gradient& gradient,
               std::span<double> buffer) {
  add_node(reducer, share, gradient, buffer);
  const bool is_root = share.count == reducer.terms;
  for (double& x : buffer) x = reducer.kept(is_root ? reducer.finished(x) : x);
}

void reproducible_all_reduce(Communicator& communicator, const Reducer& reducer,
                             const Gradient& gradient, std::span<double> buffer) {
  const std::int32_t ranks = communicator.size();
  const std::string_view wanted = reproducible_refusal(reducer.terms, ranks);
  if (!wanted.empty())
    throw InputError("reproducible all-reduce", std::to_string(ranks) + " ranks", wanted);
  add_share(reducer, share_of(reducer.terms, ranks, communicator.rank()), gradient, buffer);
  const Schedule schedule{Collective::all_reduce, all_reduce::balanced_tree, ranks};
  run_collective(communicator, schedule, reducer, buffer);
}

}  // namespace opbound
