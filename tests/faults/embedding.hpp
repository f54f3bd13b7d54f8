// Planted faults of embedding.
#pragma once

#include <map>

#include "ops/embedding.hpp"
#include "tests/faults/fault.hpp"

namespace opbound::faults {

namespace embedding_faults {

/// y_i = table[row_of(index_i)]
template <class F>
Kernel read_by(F row_of) {
  return [row_of](const Op&, const Call& call) {
    const auto& v = call.forward;
    const std::int64_t width = call.sizes[2];
    for (std::int64_t i = 0; i < call.sizes[0]; ++i)
      for (std::int64_t c = 0; c < width; ++c)
        v[2].set(i * width + c, v[0].at(row_of(index_at(v[1], i)) * width + c));
  };
}

/// dtable by add(sum so far, g) over the tokens in turn; `row_of` says where a token's goes.
template <class Row, class Add>
Kernel added_by(Row row_of, Add add) {
  return [=](const Op&, const Call& call) {
    const auto& v = call.backward;
    const std::int64_t width = call.sizes[2];
    std::vector<float> sums(static_cast<std::size_t>(call.sizes[1] * width), 0.0F);
    for (std::int64_t i = 0; i < call.sizes[0]; ++i) {
      const std::int64_t row = row_of(call, index_at(v[0], i), i);
      if (row < 0) continue;
      for (std::int64_t c = 0; c < width; ++c) {
        float& sum = sums[static_cast<std::size_t>(row * width + c)];
        sum = add(sum, static_cast<float>(v[1].at(i * width + c)));
      }
    }
    for (std::int64_t k = 0; k < v[2].count(); ++k)
      v[2].set(k, round_to(format_of(v[2].element), sums[static_cast<std::size_t>(k)]));
  };
}

/// -1: of no row.
inline std::int64_t own_row(const Call& c, std::int64_t row, std::int64_t) {
  return row == from_bytes<opbound::embedding::Attributes>(c.attributes).padding_idx ? -1 : row;
}

template <class F>
FaultyKernel gather_by(F row_of) {
  return {read_by(row_of), read_by([](std::int64_t row) { return row; })};
}
template <class Row, class Add>
FaultyKernel scatter_by(Row row_of, Add add) {
  return {added_by(row_of, add), added_by(own_row, plain_add)};
}

}  // namespace embedding_faults

inline std::vector<Fault> embedding() {
  using namespace embedding_faults;
  constexpr auto local = Direction::backward_local;
  const Inputs read{{"table", "normal"}, {"index", "index"}},
      added{{"index", "zipf"}, {"dy", "normal"}};
  const auto backward = [&](std::string_view name, std::string_view what, auto run) {
    return planted("embedding", name, what, local, "bf16:fp32:bf16", {300, 40, 8}, added, {}, run);
  };
  return {
      planted("embedding", "index_in_16_bits", "the index truncated to 16 bits", {}, "fp32",
              {50, 70000, 2}, {{"table", "normal"}, {"index", "same_index(value=65800)"}}, {},
              gather_by([](std::int64_t row) { return row & 0xffff; })),
      planted("embedding", "off_by_one", "the row before", {}, "bf16:fp32:bf16", {50, 40, 8}, read,
              {}, gather_by([](std::int64_t row) { return row > 0 ? row - 1 : row; })),
      planted("embedding", "padding_row_read_as_zero",
              "the padding row is set to 0 when it is read", {}, "bf16:fp32:bf16", {50, 5, 8}, read,
              {{"padding_idx", std::int64_t{0}}}, then([](const Judged& t, const Call& call) {
                for (std::int64_t i = 0; i < t("y").count(); ++i)
                  if (t.index("index", i / call.sizes[2]) == 0) t("y").set(i, 0);
              })),
      backward("last_writer_wins", "a row's gradient is its last token's",
               scatter_by(own_row, [](float, float g) { return g; })),
      backward(
          "sum_in_bf16", "every addition rounded to bf16",
          scatter_by(own_row,
                     [](float a, float g) { return static_cast<float>(round_to(bf16, a + g)); })),
      backward("last_token_dropped", "the last token is left out",
               scatter_by([](const Call& c, std::int64_t row,
                             std::int64_t i) { return i + 1 < c.sizes[0] ? row : -1; },
                          plain_add)),
      backward("first_upstream_for_all", "dy of token 0 for every token",
               with_input("dy", [](const TensorView& dy,
                                   std::int64_t i) { return dy.at(i % dy.size[1]); })),
      planted(
          "embedding", "padding_row_updated", "the padding row gets a gradient", local,
          "bf16:fp32:bf16", {300, 40, 8}, added, {{"padding_idx", std::int64_t{0}}},
          scatter_by([](const Call&, std::int64_t row, std::int64_t) { return row; }, plain_add)),
      planted("embedding", "mean_of_duplicates", "divided by how often the token occurs", local,
              "fp32", {300, 40, 8}, added, {}, then([](const Judged& t, const Call& call) {
                std::map<std::int64_t, int> count;
                for (std::int64_t i = 0; i < call.sizes[0]; ++i) ++count[t.index("index", i)];
                for (std::int64_t k = 0; k < t("dtable").count(); ++k)
                  t.put("dtable", k, t("dtable").at(k) / std::max(1, count[k / call.sizes[2]]));
              })),
  };
}

}  // namespace opbound::faults
