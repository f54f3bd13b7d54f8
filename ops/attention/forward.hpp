// Attention, forward: a block is one query row.
#pragma once

#include "ops/attention/definition.hpp"
#include "ops/attention/row.hpp"

namespace opbound {

struct attention::forward {
  enum { q, k, v, bias, mask, s, acc, o, lse };
  static constexpr std::array tensors{
      in("q", "heads", "queries", "d"),
      in("k", "kv_heads", "keys", "d"),
      in("v", "kv_heads", "keys", "d"),
      in("bias", "queries", "keys"),
      opbound::mask("mask", "queries", "keys"),
      scratch("s", "heads", "queries", "keys"),  // scores, then probabilities
      scratch("acc", "heads", "queries", "d"),   // the online variants' sums so far
      out("o", "heads", "queries", "d"),
      out("lse", "heads", "queries").as("compute")};

  struct rows : blocks_along<0, 2>, sums_over<3, 4> {
    static constexpr std::array<int, 2> outputs{o, lse};

    using Row = attention_detail::Row;

    template <class R, class Team, class Io>
    OPBOUND_HD static void define(const Team& team, const Problem<attention>& p, const Io& io,
                                  std::int64_t block) {
      const attention_detail::Formula<R> f{p};
      const std::int64_t h = block / f.queries, i = block % f.queries;
      const auto takes = [&](std::int64_t j) { return f.takes(io, bias, mask, i, j); };
      const auto at = [&](std::int64_t j) { return f.at_pair(h, i, j); };
      const R nothing = from<R>(0.0), lowest = from<R>(-std::numeric_limits<double>::infinity());
      team.map(f.keys, [&](std::int64_t j) {
        if (takes(j)) io.put(s, at(j), f.score(io, q, k, bias, h, i, j));
      });
      team.barrier();
      const bool any = team.any(f.keys, takes);
      const R top =
          team.max(f.keys, [&](std::int64_t j) { return takes(j) ? io.get(s, at(j)) : lowest; });
      team.map(f.keys, [&](std::int64_t j) {
        if (takes(j)) io.put(s, at(j), exp(io.get(s, at(j)) - top));
      });
      team.barrier();
      const R sum =
          team.sum(f.keys, [&](std::int64_t j) { return takes(j) ? io.get(s, at(j)) : nothing; });
      team.map(f.d, [&](std::int64_t c) {
        GaugedSum<R> value;  // 0 of no keys
        for (std::int64_t j = 0; j < f.keys; ++j)
          if (takes(j)) value.add(io.get(s, at(j)) * io.get(v, f.at_key(h, j, c)));
        io.put(o, f.at_query(h, i, c), any ? value / sum : value);
      });
      team.map(1, [&](std::int64_t) {
        io.put(lse, block, any ? gauged_sum(top, log(sum)) : gauged_sum(lowest));
      });
    }

    template <class T, class Team, class Io>
    OPBOUND_HD static void kernel(const Team& team, const Problem<attention>& p, const Io& io,
                                  std::int64_t block) {
      const Row r(p, block);
      const auto seen = [&](std::int64_t j) { return r.sees(p, io, bias, mask, j); };
      if (!team.any(r.keys, seen)) return leave_empty<T>(team, io, r);
      const T scale = attention_detail::scale_of<T>(p);
      team.map(r.keys, [&](std::int64_t j) {
        if (!seen(j)) return;
        T score = team.dot(
            r.d, [&](std::int64_t c) { return io.get(q, r.q + c); },
            [&](std::int64_t c) { return io.get(k, r.kv + j * r.d + c); });
        if (p.variant != online_exp2) score = scale * score;
        if (p.attributes.mask == Mask::additive) score = score + io.get(bias, r.query * r.keys + j);
        io.put(s, r.s + j, score);
      });
      team.barrier();
      const bool is_tiled = p.variant == online || p.variant == online_exp2;
      const std::int64_t tile = is_tiled ? p.attributes.tile : r.keys;
      Online<T> state{};
      bool begun = false;
      for (std::int64_t first = 0; first < r.keys; first += tile) {
        const std::int64_t left = r.keys - first, count = left < tile ? left : tile;
        if (!team.any(count, [&](std::int64_t j) { return seen(first + j); })) continue;
        state = take_tile<T>(team, p, io, r, first, count, begun, state, seen);
        begun = true;
      }
      team.map(r.d, [&](std::int64_t c) {
        const T sum = io.get(acc, r.q + c);
        io.put(o, r.q + c,
               p.variant == normalized_first ? sum
               : p.variant == online_exp2    ? sum * (from<T>(1.0) / state.sum)
                                             : sum / state.sum);
      });
      team.map(1, [&](std::int64_t) {
        const T top = p.variant == online_exp2 ? state.top * scale : state.top;
        io.put(lse, r.row, top + log(state.sum));
      });
    }

   private:
    /// What is carried from tile to tile: the maximum and the sum of exp(s - top) so far.
    template <class T>
    struct Online {
      T top, sum;
    };

    /// exp(s - top); exp2 variant: exp2(s c - top c), s without its scale.
    template <class T>
    OPBOUND_HD static T weight(const Problem<attention>& p, T score, T top) {
      if (p.variant != online_exp2) return exp(score - top);
      const T c = attention_detail::scale_of<T>(p) * constant<T>(log2_e);
      return exp2(fma(score, c, -(top * c)));
    }

    /// The exact result is the same whatever number `top` is, so it is a pivot.
    template <class T, class Team, class Io, class Seen>
    OPBOUND_HD static Online<T> take_tile(const Team& team, const Problem<attention>& p,
                                          const Io& io, const Row& r, std::int64_t first,
                                          std::int64_t count, bool begun, const Online<T>& before,
                                          Seen seen) {
      const T zero = from<T>(0.0);
      const T highest = team.max(count, [&](std::int64_t j) {
        return seen(first + j) ? io.get(s, r.s + first + j)
                               : from<T>(-std::numeric_limits<double>::infinity());
      });
      Online<T> now{pivot(begun ? max(before.top, highest) : highest), zero};
      const T factor = begun ? rescale<T>(p, before.top, now.top) : zero;
      now.sum = team.sum(count, [&](std::int64_t j) {
        return seen(first + j) ? weight<T>(p, io.get(s, r.s + first + j), now.top) : zero;
      });
      if (begun) now.sum = before.sum * factor + now.sum;
      team.map(count, [&](std::int64_t j) {
        const std::int64_t at = r.s + first + j;
        T w = seen(first + j) ? weight<T>(p, io.get(s, at), now.top) : zero;
        if (p.variant == normalized_first) w = w / now.sum;
        io.put(s, at, stored_in(p.attributes.p_format, w));
      });
      team.barrier();
      team.map(r.d, [&](std::int64_t c) {
        const T added = team.dot(
            count, [&](std::int64_t j) { return io.get(s, r.s + first + j); },
            [&](std::int64_t j) { return io.get(v, r.kv + (first + j) * r.d + c); });
        io.put(acc, r.q + c, begun ? io.get(acc, r.q + c) * factor + added : added);
      });
      return now;
    }

    template <class T>
    OPBOUND_HD static T rescale(const Problem<attention>& p, T before, T now) {
      if (p.variant != online_exp2) return exp(before - now);
      return exp2((before - now) * (attention_detail::scale_of<T>(p) * constant<T>(log2_e)));
    }

    template <class T, class Team, class Io>
    OPBOUND_HD static void leave_empty(const Team& team, const Io& io, const Row& r) {
      team.map(r.d, [&](std::int64_t c) { io.put(o, r.q + c, from<T>(0.0)); });
      team.map(1, [&](std::int64_t) {
        io.put(lse, r.row, from<T>(-std::numeric_limits<double>::infinity()));
      });
    }
  };
  using parts = Parts<rows>;
};

}  // namespace opbound
