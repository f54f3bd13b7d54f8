// Planted faults of sums by segment.
#pragma once

#include "ops/segmented_sum.hpp"
#include "tests/faults/fault.hpp"

namespace opbound::faults {

namespace segmented_sum_faults {

/// y_s by add(sum so far, x) over the rows that `takes` says are of segment s.
template <class Takes, class Add>
Kernel segments_by(Takes takes, Add add) {
  return [=](const Op&, const Call& call) {
    const auto& v = call.forward;
    const std::int64_t width = call.sizes[1];
    for (std::int64_t k = 0; k < v[3].count(); ++k) {
      float sum = 0;
      for (std::int64_t i = 0; i < call.sizes[0]; ++i)
        if (takes(call, i, k / width))
          sum = add(sum, static_cast<float>(v[0].at(i * width + k % width)));
      v[3].set(k, round_to(format_of(v[3].element), sum));
    }
  };
}

inline bool has_id(const Call& c, std::int64_t i, std::int64_t s) {
  return index_at(c.forward[1], i) == s;
}

inline bool right_rows(const Call& c, std::int64_t i, std::int64_t s) {
  const auto a = from_bytes<opbound::segmented_sum::Attributes>(c.attributes);
  if (a.by == opbound::segmented_sum::By::ids) return has_id(c, i, s);
  return i >= index_at(c.forward[2], s) && i < index_at(c.forward[2], s + 1);
}
template <class Takes, class Add>
FaultyKernel sum_by(Takes takes, Add add) {
  return {segments_by(takes, add), segments_by(right_rows, plain_add)};
}

}  // namespace segmented_sum_faults

inline std::vector<Fault> segmented_sum() {
  using namespace segmented_sum_faults;
  const Inputs inputs{{"x", "normal"}, {"ids", "zipf"}, {"dy", "normal"}},
      counted{{"x", "normal"}, {"offsets", "counting"}, {"dy", "normal"}};
  const auto by_ids = [&](std::string_view name, std::string_view what, auto takes, auto add) {
    return planted("segmented_sum", name, what, {}, "bf16:fp32:bf16", {300, 4, 9, 10}, inputs, {},
                   sum_by(takes, add));
  };
  const auto by_offsets = [&](std::string_view name, std::string_view what, Direction direction,
                              auto run) {
    return planted("segmented_sum", name, what, direction, "fp32", {40, 4, 9, 10}, counted,
                   {{"by", std::string("offsets")}}, run);
  };
  const auto last_inclusive = [](const Call& c, std::int64_t i, std::int64_t s) {
    return i >= index_at(c.forward[2], s) && i <= index_at(c.forward[2], s + 1);
  };
  return {
      by_ids("last_writer_wins", "a segment is its last row", has_id,
             [](float, float x) { return x; }),
      by_ids("sum_in_bf16", "every addition rounded to bf16", has_id, add_in_bf16),
      by_ids(
          "last_row_dropped", "the last row is left out",
          [](const Call& c, std::int64_t i, std::int64_t s) {
            return i + 1 < c.sizes[0] && has_id(c, i, s);
          },
          plain_add),
      by_ids(
          "id_in_3_bits", "ids truncated to three bits",
          [](const Call& c, std::int64_t i, std::int64_t s) {
            return (index_at(c.forward[1], i) & 7) == s;
          },
          plain_add),
      planted("segmented_sum", "ids_outside_go_to_0", "an id outside is taken as 0", {},
              "bf16:fp32:bf16", {100, 4, 9, 10}, {{"x", "normal"}, {"ids", "index(ignored=0.3)"}},
              {},
              sum_by(
                  [](const Call& c, std::int64_t i, std::int64_t s) {
                    const std::int64_t id = index_at(c.forward[1], i);
                    return (id < 0 ? 0 : id) == s;
                  },
                  plain_add)),
      by_offsets("end_included", "the row at the next offset is taken in", Direction::forward,
                 sum_by(last_inclusive, plain_add)),
      by_offsets(
          "first_upstream_for_all", "dy of segment 0 for every row", Direction::backward_local,
          with_input("dy",
                     [](const TensorView& dy, std::int64_t i) { return dy.at(i % dy.size[1]); })),
  };
}

}  // namespace opbound::faults
