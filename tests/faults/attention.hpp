// Planted faults of attention.
#pragma once

#include <algorithm>

#include "ops/attention.hpp"
#include "tests/faults/fault.hpp"

namespace opbound::faults {

namespace attention_faults {

using Op_ = opbound::attention;
using Place = Op_::forward;
using Back = Op_::backward;

/// One query row in fp32, with what a fault may spoil.
struct RowOf {
  std::int64_t head, query, keys, d;
  std::vector<float> q, logits;          ///< logits with their scale, masked ones -infinity
  std::vector<std::vector<float>> k, v;  ///< by key
};

inline float plain_dot(const std::vector<float>& a, const std::vector<float>& b) {
  float sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum = fma(a[i], b[i], sum);
  return sum;
}

/// What a row is made of; `kv_head(h)` picks the head of keys, `last(i)` the last key seen.
template <class KvHead, class Last>
RowOf row_of(const Call& call, std::int64_t row, KvHead kv_head, Last last) {
  const Sizes& z = call.sizes;
  const auto a = from_bytes<Op_::Attributes>(call.attributes);
  const auto views = call.judged();  // q, k, v stand first in both passes
  RowOf r{row / z[2], row % z[2], z[3], z[4], {}, {}, {}, {}};
  const auto vector_at = [&](int tensor, std::int64_t first) {
    std::vector<float> x;
    for (std::int64_t c = 0; c < r.d; ++c)
      x.push_back(static_cast<float>(views[static_cast<std::size_t>(tensor)].at(first + c)));
    return x;
  };
  r.q = vector_at(Place::q, row * r.d);
  const auto scale =
      static_cast<float>(a.scale != 0 ? a.scale : 1 / std::sqrt(static_cast<double>(r.d)));
  for (std::int64_t j = 0; j < r.keys; ++j) {
    const std::int64_t at = (kv_head(r.head) * r.keys + j) * r.d;
    r.k.push_back(vector_at(Place::k, at));
    r.v.push_back(vector_at(Place::v, at));
    r.logits.push_back(j <= last(r.query) ? scale * plain_dot(r.q, r.k.back())
                                          : -std::numeric_limits<float>::infinity());
  }
  return r;
}

/// Softmax of the row times V, with the maximum subtracted: o, then lse.
inline std::pair<std::vector<float>, float> attend(const RowOf& r, float top) {
  float sum = 0;
  std::vector<float> o(static_cast<std::size_t>(r.d));
  for (std::size_t j = 0; j < r.logits.size(); ++j) {
    const float p = exp(r.logits[j] - top);
    sum += p;
    for (std::size_t c = 0; c < o.size(); ++c) o[c] = fma(p, r.v[j][c], o[c]);
  }
  for (float& x : o) x /= sum;
  return {o, top + log(sum)};
}

/// The forward pass row by row: make(row) gives o and lse.
template <class KvHead, class Last, class Make>
Kernel rows_by(KvHead kv_head, Last last, Make make) {
  return [=](const Op&, const Call& call) {
    const Sizes& z = call.sizes;
    for (std::int64_t row = 0; row < z[0] * z[2]; ++row) {
      const auto shared = [&](std::int64_t h) { return kv_head(h, z); };
      const auto seen = [&](std::int64_t i) { return last(i, call); };
      const auto [o, lse] = make(row_of(call, row, shared, seen));
      const TensorView& to = call.forward[Place::o];
      for (std::int64_t c = 0; c < z[4]; ++c)
        to.set(row * z[4] + c, round_to(format_of(to.element), o[static_cast<std::size_t>(c)]));
      call.forward[Place::lse].set(row, lse);
    }
  };
}

inline std::int64_t right_head(std::int64_t h, const Sizes& z) { return h / (z[0] / z[1]); }
inline std::int64_t right_last(std::int64_t i, const Call& call) {
  const auto a = from_bytes<Op_::Attributes>(call.attributes);
  return a.mask == Op_::Mask::causal ? i + call.sizes[3] - call.sizes[2] : call.sizes[3];
}
inline std::pair<std::vector<float>, float> right_row(const RowOf& r) {
  return attend(r, largest(r.logits));
}

template <class KvHead, class Last, class Make>
FaultyKernel forward_by(KvHead kv_head, Last last, Make make) {
  return {rows_by(kv_head, last, make), rows_by(right_head, right_last, right_row)};
}

template <class F>
FaultyKernel with_attributes(F change) {
  return with_attributes_of<Op_::Attributes>(change);
}

inline void scale_all(const TensorView& t, double factor) {
  for (std::int64_t i = 0; i < t.count(); ++i)
    t.set(i, round_to(format_of(t.element), t.at(i) * factor));
}

}  // namespace attention_faults

inline std::vector<Fault> attention_forward_faults() {
  using namespace attention_faults;
  const Inputs normal{{"q", "normal"}, {"k", "normal"}, {"v", "normal"}};
  const auto with = [&](std::string_view name, std::string_view what, auto run) {
    return planted("attention", name, what, {}, "bf16:fp32:bf16", {2, 1, 4, 33, 16}, normal, {},
                   run);
  };
  std::vector<Fault> all{
      with("scale_forgotten", "logits without 1 / sqrt(d)",
           with_attributes([](auto& a) { a.scale = 1; })),
      with("padded_keys", "the last tile's padding takes part with logit 0",
           forward_by(right_head, right_last,
                      [](RowOf r) {
                        for (int j = 0; j < 31; ++j) {
                          r.logits.push_back(0);
                          r.v.emplace_back(static_cast<std::size_t>(r.d), 0.0F);
                        }
                        return right_row(r);
                      })),
      with("last_key_dropped", "the last key is left out",
           forward_by(right_head, right_last,
                      [](RowOf r) {
                        r.logits.pop_back();
                        return right_row(r);
                      })),
      with("lse_in_bits", "lse with log2 instead of log",
           forward_by(right_head, right_last,
                      [](const RowOf& r) {
                        auto [o, lse] = right_row(r);
                        const float top = largest(r.logits);
                        return std::pair(o, top + (lse - top) * 1.442695F);
                      })),
      with("lse_of_rounded_logits", "logits rounded to bf16",
           forward_by(right_head, right_last,
                      [](RowOf r) {
                        for (float& s : r.logits) s = static_cast<float>(round_to(bf16, s));
                        return right_row(r);
                      })),
      with("rescale_forgotten", "online: earlier sums keep the old maximum",
           forward_by(right_head, right_last,
                      [](const RowOf& r) {
                        float top = r.logits[0];
                        for (std::size_t j = 0; j < 16; ++j) top = max(top, r.logits[j]);
                        RowOf other = r;
                        const float end = largest(r.logits);
                        for (std::size_t j = 0; j < 16; ++j) other.logits[j] += end - top;
                        return attend(other, end);
                      })),
  };
  all.push_back(planted("attention", "p_in_bf16", "P rounded to bf16 where fp32 is declared", {},
                        "fp32", {2, 1, 4, 33, 16}, normal, {},
                        with_attributes([](auto& a) { a.p_format = bf16; })));
  return all;
}

/// Which keys a row sees, and how far they are.
inline std::vector<Fault> attention_mask_faults() {
  using namespace attention_faults;
  const Inputs normal{{"q", "normal"}, {"k", "normal"}, {"v", "normal"}};
  const Attributes causal{{"mask", std::string("causal")}};
  const auto with = [&](std::string_view name, std::string_view what,
                        std::vector<std::int64_t> shape, const Attributes& attributes, auto run) {
    return planted("attention", name, what, {}, "bf16:fp32:bf16", std::move(shape), normal,
                   attributes, run);
  };
  std::vector<Fault> all{
      with("wrong_head_of_keys", "head h reads key head h mod kv_heads", {4, 2, 3, 9, 8}, {},
           forward_by([](std::int64_t h, const Sizes& z) { return h % z[1]; }, right_last,
                      right_row)),
      with("causal_off_by_one", "a query sees one key too many", {2, 1, 4, 33, 16}, causal,
           forward_by(
               right_head, [](std::int64_t i, const Call& c) { return right_last(i, c) + 1; },
               right_row)),
      with("causal_from_the_top", "causality counted from the first key", {2, 1, 4, 33, 16}, causal,
           forward_by(
               right_head, [](std::int64_t i, const Call&) { return i; }, right_row)),
      // The first query is before the first key.
      with("masked_row_averages_v", "a row with no key gives the mean of V", {1, 1, 3, 2, 8},
           causal, then([](const Judged& t, const Call& call) {
             const std::int64_t keys = call.sizes[3], d = call.sizes[4];
             for (std::int64_t c = 0; c < d; ++c) {
               double mean = 0;
               for (std::int64_t j = 0; j < keys; ++j) mean += t("v").at(j * d + c);
               t.put("o", c, mean / static_cast<double>(keys));
             }
           })),
      with("no_maximum", "exp(s) without the maximum, which underflows", {2, 1, 4, 33, 16}, {},
           forward_by(right_head, right_last, [](const RowOf& r) { return attend(r, 0); })),
  };
  all.back().inputs = {
      {"q", "constant(value=-4)"}, {"k", "normal(mean=60, sigma=0.5)"}, {"v", "normal"}};
  return all;
}

inline std::vector<Fault> attention_backward_faults() {
  using namespace attention_faults;
  constexpr auto local = Direction::backward_local;
  const Inputs normal{{"q", "normal"}, {"k", "normal"}, {"v", "normal"}, {"do", "normal"}};
  const auto with = [&](std::string_view name, std::string_view what, auto run) {
    return planted("attention", name, what, local, "bf16:fp32:bf16", {2, 1, 5, 17, 16}, normal, {},
                   run);
  };
  std::vector<Fault> all{
      with("row_term_forgotten", "dS = P dP, without D", with_call([](Call& c) {
             TensorView& o = c.backward[Back::o];
             static Tensor zero(fp32, {1});
             o = zero.view();
             o.rank = 3;
             for (int axis = 0; axis < 3; ++axis) {
               o.size[axis] = c.backward[Back::q].size[axis];
               o.stride[axis] = 0;
             }
           })),
      with("dk_without_scale", "dK without 1 / sqrt(d)",
           then([](const Judged& t, const Call&) { scale_all(t("dk"), 4); })),
      with("dq_scaled_twice", "dQ times 1 / sqrt(d) twice",
           then([](const Judged& t, const Call&) { scale_all(t("dq"), 0.25); })),
      with("first_head_only", "dK and dV of the group's first head alone",
           FaultyKernel(
               [](const Op& op, const Call& call) {
                 op.run(call);
                 Call other = call;
                 Tensor dq(fp32, {call.backward[Back::dq].count()});
                 other.backward[Back::dq] = dq.view();
                 other.sizes[0] = other.sizes[1];
                 op.run(other);
               },
               own)),
      with("first_upstream_row", "the first query's dO for all queries",
           with_call([](Call& c) { c.backward[Back::d_o].stride[1] = 0; })),
      with("lse_of_row_zero", "every row with the first row's lse", with_call([](Call& c) {
             c.backward[Back::lse].stride[0] = c.backward[Back::lse].stride[1] = 0;
           })),
  };
  all.push_back(planted("attention", "ds_in_bf16", "dS rounded to bf16 where fp32 is declared",
                        local, "fp32", {2, 1, 5, 17, 16}, normal, {},
                        with_attributes([](auto& a) { a.ds_format = bf16; })));
  all.push_back(planted("attention", "row_term_of_rounded_o", "D from O rounded to bf16",
                        Direction::backward_full, "fp32", {2, 1, 5, 17, 16}, normal, {},
                        with_saved("o", [](const TensorView& o, std::int64_t i) {
                          return round_to(bf16, o.at(i));
                        })));
  return all;
}

inline std::vector<Fault> attention() {
  return joined(attention_forward_faults(), attention_mask_faults(), attention_backward_faults());
}

}  // namespace opbound::faults
