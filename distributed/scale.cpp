#include "distributed/scale.hpp"

#include <algorithm>
#include <cmath>

#include "bounds/reveal.hpp"
#include "distributed/engine_provider.hpp"
#include "distributed/simulated.hpp"
#include "reports/text.hpp"
#include "suites/run.hpp"

namespace opbound {
namespace {

/// The largest error and bound of y in units of u times the sum of its terms' magnitudes.
void measure(ScaleRow& row, const CaseSpec& spec, const Prepared& prepared, const Format& wire) {
  const std::size_t y = all_reduce::forward::y;
  ReferenceArrays reference(2);
  spec.op->reference_dd(prepared.call, reference);
  Contract own;
  own.variants = spec.declared;
  const BoundArrays bounds = spec.op->bound(prepared.call, own, spec.declared.front());
  for (std::int64_t i = 0; i < prepared.call.forward[y].count(); ++i) {
    const auto place = static_cast<std::size_t>(i);
    const double unit = wire.unit_roundoff() * reference[y].gauge[place];
    if (unit == 0) continue;
    const Exact& exact = reference[y].exact[place];
    const double error = bounds[y].value[place] - exact.high - exact.low;
    row.error = std::max(row.error, std::abs(error) / unit);
    row.bound = std::max(row.bound, bounds[y].radius[place] / unit);
  }
}

}  // namespace

std::vector<std::int32_t> rank_counts(std::int32_t most) {
  std::vector<std::int32_t> counts;
  for (std::int64_t n = 2; n < most; n *= 2) counts.push_back(static_cast<std::int32_t>(n));
  counts.push_back(most);
  return counts;
}

std::optional<Scaled> scale(CollectiveSpec c, std::int32_t ranks, std::uint64_t seed) {
  c.spec.sizes[0] = ranks;
  c.spec.variant = c.order;
  c.spec.declared = {c.order};
  const Schedule schedule = schedule_of(c);
  if (!refusal(schedule).empty() || !c.spec.op->allows(c.spec.attributes, c.order))
    return std::nullopt;
  const Reducer reducer = reducer_of(c.spec);
  const std::int64_t n = c.spec.sizes[1];
  Prepared prepared = prepare(c.spec);
  const Tensor& x = prepared.tensors.find("x")->second;
  SimulatedRanks simulated(ranks, {.seed = seed});
  Buffers buffers(static_cast<std::size_t>(ranks),
                  std::vector<double>(static_cast<std::size_t>(n)));
  for (std::int64_t k = 0; k < ranks * n; ++k)
    buffers[static_cast<std::size_t>(k / n)][static_cast<std::size_t>(k % n)] =
        simulated.own_term(reducer, x.at(k));
  simulated.run(schedule, reducer, buffers);

  Tensor& y = prepared.tensors.find("y")->second;
  for (std::int64_t i = 0; i < n; ++i) y.set(i, buffers[0][static_cast<std::size_t>(i)]);
  const EngineProvider provider(simulated, c.order);
  Scaled s;
  s.record = judge_case(c.spec, provider, prepared, provider.contract(*c.spec.op, c.spec.declared))
                 .front();
  const Record whose = described(c, simulated, s.record.part);
  s.record.environment = whose.environment;
  s.record.ranks = whose.ranks;
  s.record.schedule = whose.schedule;
  s.row = {ranks,
           c.order,
           0,
           0,
           0,
           s.record.ratio.value_or(0),
           s.record.verdict,
           simulated.count().messages,
           simulated.count().last_end};
  s.row.height = height(tree_of(schedule, 0));
  measure(s.row, c.spec, prepared, reducer.wire);
  return s;
}

std::string scale_table(const std::vector<ScaleRow>& rows, const Terminal& terminal) {
  Table table({{.title = "ranks", .number = true},
               {.title = "order"},
               {.title = "height", .number = true},
               {.title = "error / u sum|x|", .number = true},
               {.title = "bound / u sum|x|", .number = true},
               {.title = "ratio", .number = true},
               {.title = "verdict"},
               {.title = "messages", .number = true},
               {.title = "ticks", .number = true}});
  for (const ScaleRow& r : rows)
    table.add_row({{std::to_string(r.ranks)},
                   {std::string(name_of_order(r.order))},
                   {std::to_string(r.height)},
                   {legible(r.error)},
                   {legible(r.bound)},
                   {legible(r.ratio)},
                   {std::string(name_of(r.verdict))},
                   {legible(static_cast<std::uint64_t>(r.messages))},
                   {legible(static_cast<std::uint64_t>(r.ticks))}});
  return table.terminal(terminal);
}

std::optional<std::int32_t> first_overflow(CollectiveSpec c, double gradient, std::int32_t most) {
  const Format& stored = c.spec.precision.storage;
  Tensor x(stored, {most}), y(c.spec.precision.output, {1});
  x.fill(gradient);
  c.spec.sizes[1] = 1;
  for (std::int32_t ranks = 1; ranks <= most; ++ranks) {
    c.spec.sizes[0] = ranks;
    const Call call{Direction::forward,
                    c.spec.attributes,
                    c.order,
                    c.spec.sizes,
                    c.spec.precision.compute,
                    {contiguous_view(element_of(stored), {ranks, 1}, x.bytes().data()), y.view()},
                    {}};
    c.spec.op->run(call);
    if (!std::isfinite(y.at(0))) return ranks;
  }
  return std::nullopt;
}

}  // namespace opbound
