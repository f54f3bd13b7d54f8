// A case of all_reduce and what its ranks hold, for collectives that are run over any transport.
#pragma once

#include <vector>

#include "distributed/collective_spec.hpp"
#include "distributed/reproducible.hpp"
#include "distributed/simulated.hpp"
#include "suites/input.hpp"
#include "suites/run.hpp"
#include "tests/attack_kernels.hpp"

namespace opbound {

struct CollectiveCase {
  CaseSpec spec;
  Prepared prepared;
  Reducer reducer;
  Schedule schedule;
  Buffers terms;  ///< of every rank

  /// `given` in place of normal inputs.
  CollectiveCase(int order, std::int32_t ranks, std::int64_t n, std::string_view precision,
                 all_reduce::Attributes attributes = {}, const char* input = "normal") {
    spec = attack::case_for("all_reduce", Direction::forward, precision, {ranks, n});
    spec.attributes = to_bytes(attributes);
    spec.inputs = {{"x", parse_input(input)}};
    spec.variant = order;
    spec.declared = {order};
    prepared = prepare(spec);
    reducer = reducer_of(spec);
    schedule = schedule_of({spec, Collective::all_reduce, order});
    for (std::int32_t r = 0; r < ranks; ++r) {
      auto& own = terms.emplace_back(static_cast<std::size_t>(n));
      gradient()(r, own);
      for (double& x : own) x = reducer.term(x);
    }
  }

  /// Row r of x.
  Gradient gradient() const {
    return [&x = prepared.tensors.find("x")->second](std::int64_t r, std::span<double> elements) {
      const auto n = std::ssize(elements);
      for (std::int64_t i = 0; i < n; ++i) elements[static_cast<std::size_t>(i)] = x.at(r * n + i);
    };
  }
  std::vector<double> by_op() {
    spec.op->run(prepared.call);
    return prepared.tensors.find("y")->second.values();
  }
  std::vector<double> stored(std::vector<double> values) const {
    for (double& v : values) v = round_to(spec.precision.output, v);
    return values;
  }
};

/// Are they the same, NaN being equal to NaN and -0 not to 0?
inline bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](double x, double y) {
    return (x != x && y != y) || std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(y);
  });
}

}  // namespace opbound
