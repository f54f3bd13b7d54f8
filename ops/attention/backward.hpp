// Attention, backward, from the stored lse (and o): P is computed again.
//   dV = P^T dO, dP = dO V^T, dS = P (dP - D), dQ = scale dS K, dK = scale dS^T Q
#pragma once

#include "ops/attention/definition.hpp"
#include "ops/attention/row.hpp"

namespace opbound {

struct attention::backward {
  enum { q, k, v, bias, mask, o, lse, d_o, p, ds, row_term, dq, dk, dv };
  static constexpr std::array tensors{
      in("q", "heads", "queries", "d"),         in("k", "kv_heads", "keys", "d"),
      in("v", "kv_heads", "keys", "d"),         in("bias", "queries", "keys"),
      opbound::mask("mask", "queries", "keys"), saved("o", "heads", "queries", "d"),
      saved("lse", "heads", "queries"),         in("do", "heads", "queries", "d"),
      scratch("p", "heads", "queries", "keys"), scratch("ds", "heads", "queries", "keys"),
      scratch("row_term", "heads", "queries"),  out("dq", "heads", "queries", "d"),
      out("dk", "kv_heads", "keys", "d"),       out("dv", "kv_heads", "keys", "d")};
  using Row = attention_detail::Row;

  /// P and dS of a query row, for both families; then its dQ.
  struct rows : blocks_along<0, 2>, sums_over<3, 4> {
    static constexpr std::array<int, 4> outputs{p, ds, row_term, dq};

    template <class R, class Team, class Io>
    OPBOUND_HD static void define(const Team& team, const Problem<attention>& problem, const Io& io,
                                  std::int64_t block) {
      const attention_detail::Formula<R> f{problem};
      const std::int64_t h = block / f.queries, i = block % f.queries;
      const auto at = [&](std::int64_t j) { return f.at_pair(h, i, j); };
      team.map(f.keys, [&](std::int64_t j) {
        const bool takes = f.takes(io, bias, mask, i, j);
        R weight = from<R>(0.0), slope = from<R>(0.0);
        if (takes) weight = exp(f.score(io, q, k, bias, h, i, j) - io.get(lse, block));
        for (std::int64_t c = 0; takes && c < f.d; ++c)
          slope = slope + io.get(d_o, f.at_query(h, i, c)) * io.get(v, f.at_key(h, j, c));
        io.put(p, at(j), weight);
        io.put(ds, at(j), slope);
      });
      team.barrier();
      const R term = problem.attributes.row_term == RowTerm::stored_o
                         ? team.sum(f.d,
                                    [&](std::int64_t c) {
                                      const std::int64_t e = f.at_query(h, i, c);
                                      return io.get(d_o, e) * io.get(o, e);
                                    })
                         : team.sum(f.keys, [&](std::int64_t j) {
                             return io.get(p, at(j)) * io.get(ds, at(j));
                           });
      team.map(1, [&](std::int64_t) { io.put(row_term, block, term); });
      team.barrier();
      team.map(f.d, [&](std::int64_t c) {
        GaugedSum<R> sum;
        for (std::int64_t j = 0; j < f.keys; ++j)
          if (f.takes(io, bias, mask, i, j))
            sum.add(io.get(k, f.at_key(h, j, c)) * score_gradient<R>(io, block, at(j)));
        io.put(dq, f.at_query(h, i, c), f.scale * sum);
      });
    }

    /// dS_ij = P (dP - D); over the reals `ds` holds dP.
    template <class R, class Io>
    OPBOUND_HD static GaugedSum<R> score_gradient(const Io& io, std::int64_t row, std::int64_t at) {
      return io.get(p, at) * gauged_sum(io.get(ds, at), -io.get(row_term, row));
    }

    template <class T, class Team, class Io>
    OPBOUND_HD static void kernel(const Team& team, const Problem<attention>& problem, const Io& io,
                                  std::int64_t block) {
      const Row r(problem, block);
      const T scale = attention_detail::scale_of<T>(problem), zero = from<T>(0.0);
      const auto seen = [&](std::int64_t j) { return r.sees(problem, io, bias, mask, j); };
      team.map(r.keys, [&](std::int64_t j) {
        io.put(p, r.s + j, seen(j) ? weight<T>(team, problem, io, r, j) : zero);
        io.put(ds, r.s + j,
               seen(j) ? team.dot(
                             r.d, [&](std::int64_t c) { return io.get(d_o, r.q + c); },
                             [&](std::int64_t c) { return io.get(v, r.kv + j * r.d + c); })
                       : zero);
      });
      team.barrier();
      const T term =
          problem.attributes.row_term == RowTerm::stored_o
              ? team.sum(r.d,
                         [&](std::int64_t c) { return io.get(d_o, r.q + c) * io.get(o, r.q + c); })
              : team.sum(r.keys,
                         [&](std::int64_t j) { return io.get(p, r.s + j) * io.get(ds, r.s + j); });
      team.map(r.keys, [&](std::int64_t j) {
        if (!seen(j)) return;
        const T w = io.get(p, r.s + j);
        io.put(ds, r.s + j,
               stored_in(problem.attributes.ds_format, w * (io.get(ds, r.s + j) - term)));
        io.put(p, r.s + j, stored_in(problem.attributes.p_format, w));
      });
      team.barrier();
      team.map(r.d, [&](std::int64_t c) {
        const T sum = team.dot(
            r.keys, [&](std::int64_t j) { return io.get(ds, r.s + j); },
            [&](std::int64_t j) { return io.get(k, r.kv + j * r.d + c); });
        io.put(dq, r.q + c, scale * sum);
      });
    }

   private:
    /// exp(s - lse); exp2 variant: exp2(q . k c - lse log2 e), c = scale log2 e.
    template <class T, class Team, class Io>
    OPBOUND_HD static T weight(const Team& team, const Problem<attention>& problem, const Io& io,
                               const Row& r, std::int64_t j) {
      const T scale = attention_detail::scale_of<T>(problem);
      const T product = team.dot(
          r.d, [&](std::int64_t c) { return io.get(q, r.q + c); },
          [&](std::int64_t c) { return io.get(k, r.kv + j * r.d + c); });
      if (problem.variant == online_exp2)
        return exp2(
            fma(product, scale * constant<T>(log2_e), -(io.get(lse, r.row) * constant<T>(log2_e))));
      const T score = scale * product;
      if (problem.attributes.mask != Mask::additive) return exp(score - io.get(lse, r.row));
      return exp((score + io.get(bias, r.query * r.keys + j)) - io.get(lse, r.row));
    }
  };

  /// dK and dV of one key, over the queries of all heads that read it.
  struct keys : blocks_along<1, 3> {
    static constexpr std::array<int, 2> outputs{dk, dv};
    OPBOUND_HD static std::int64_t longest_sum(const Sizes& z) {
      return z[1] == 0 ? 0 : z[0] / z[1] * z[2];
    }

    template <class R, class Team, class Io>
    OPBOUND_HD static void define(const Team& team, const Problem<attention>& problem, const Io& io,
                                  std::int64_t block) {
      const attention_detail::Formula<R> f{problem};
      const std::int64_t j = block % f.keys;
      team.map(f.d, [&](std::int64_t c) {
        GaugedSum<R> of_k, of_v;
        for (std::int64_t h = 0; h < f.heads; ++h)
          for (std::int64_t i = 0; i < f.queries; ++i) {
            if (f.key_head(h) != block / f.keys || !f.takes(io, bias, mask, i, j)) continue;
            const std::int64_t row = h * f.queries + i, at = f.at_pair(h, i, j);
            of_k.add(io.get(q, f.at_query(h, i, c)) * rows::score_gradient<R>(io, row, at));
            of_v.add(io.get(p, at) * io.get(d_o, f.at_query(h, i, c)));
          }
        io.put(dk, block * f.d + c, f.scale * of_k);
        io.put(dv, block * f.d + c, of_v);
      });
    }

    template <class T, class Team, class Io>
    OPBOUND_HD static void kernel(const Team& team, const Problem<attention>& problem, const Io& io,
                                  std::int64_t block) {
      const Sizes& z = problem.sizes;
      const T scale = attention_detail::scale_of<T>(problem);
      const std::int64_t rows = z[0] / z[1] * z[2];  // a key head's rows stand together
      const std::int64_t first = block / z[3] * rows, j = block % z[3];
      team.map(z[4], [&](std::int64_t c) {
        const T of_k = team.dot(
            rows, [&](std::int64_t t) { return io.get(ds, (first + t) * z[3] + j); },
            [&](std::int64_t t) { return io.get(q, (first + t) * z[4] + c); });
        const T of_v = team.dot(
            rows, [&](std::int64_t t) { return io.get(p, (first + t) * z[3] + j); },
            [&](std::int64_t t) { return io.get(d_o, (first + t) * z[4] + c); });
        io.put(dk, block * z[4] + c, scale * of_k);
        io.put(dv, block * z[4] + c, of_v);
      });
    }
  };
  using parts = Parts<rows, keys>;
};

}  // namespace opbound
