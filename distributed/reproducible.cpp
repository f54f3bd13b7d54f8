#include "distributed/reproducible.hpp"

#include <algorithm>
#include <bit>

#include "reports/error.hpp"

namespace opbound {
namespace {

void put_additions(std::int64_t terms, std::int32_t ends, std::vector<std::int32_t>& after) {
  if (terms == 1) return after.push_back(ends);
  put_additions(terms - terms / 2, 0, after);
  put_additions(terms / 2, ends + 1, after);
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

std::vector<std::int32_t> additions_after(std::int64_t terms) {
  std::vector<std::int32_t> after;
  put_additions(terms, 0, after);
  return after;
}

std::int32_t most_held(std::span<const std::int32_t> additions) {
  std::int32_t held = 0, most = 0;
  for (const std::int32_t a : additions) {
    most = std::max(most, ++held);
    held -= a;
  }
  return most;
}

void add_share(const Reducer& reducer, const Share& share, const Gradient& gradient,
               std::span<double> buffer) {
  std::vector<std::vector<double>> held;
  std::int64_t m = share.first;
  for (std::int32_t additions : additions_after(share.count)) {
    gradient(m++, held.emplace_back(buffer.size()));
    for (double& x : held.back()) x = reducer.kept(reducer.term(x));
    for (; additions > 0; --additions) {
      const std::vector<double> right = std::move(held.back());
      held.pop_back();
      const bool is_root = held.size() == 1 && additions == 1 && m == reducer.terms;
      for (std::size_t i = 0; i < right.size(); ++i) {
        double& left = held.back()[i];
        const double total = reducer.combined(left, right[i]);
        left =
            reducer.kept(is_root && share.count == reducer.terms ? reducer.finished(total) : total);
      }
    }
  }
  std::ranges::copy(held.front(), buffer.begin());
  if (reducer.terms == 1)  // a root that is no sum
    for (double& x : buffer) x = reducer.kept(reducer.finished(x));
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
