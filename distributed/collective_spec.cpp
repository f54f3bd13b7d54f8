#include "distributed/collective_spec.hpp"

#include <algorithm>

#include "distributed/engine_provider.hpp"
#include "suites/run.hpp"

namespace opbound {

Reducer reducer_of(const CaseSpec& spec) {
  return reducer_of(from_bytes<all_reduce::Attributes>(spec.attributes), spec.precision.compute,
                    spec.precision.output, spec.sizes[0]);
}

Schedule schedule_of(const CollectiveSpec& c) {
  const auto a = from_bytes<all_reduce::Attributes>(c.spec.attributes);
  const std::int64_t ranks = c.spec.sizes[0];
  return {c.collective, c.order, static_cast<std::int32_t>(ranks),
          static_cast<std::int32_t>(std::min(a.group, ranks))};
}

Record described(const CollectiveSpec& c, Engine& engine, std::string part) {
  Record r = record_of(c.spec, EngineProvider(engine));
  r.part = std::move(part);
  r.ranks = engine.ranks();
  if (c.collective != Collective::all_reduce) r.schedule = name_of(c.collective);
  if (engine.traits().keeps_order)
    r.schedule.append(r.schedule.empty() ? "" : " ").append(name_of_order(c.order));
  std::string tensors;
  for (const TensorRange& t : c.tensors)
    tensors.append(tensors.empty() ? "" : ",")
        .append(t.name)
        .append("=")
        .append(std::to_string(t.range.count));
  if (!tensors.empty()) r.environment.emplace_back(tensors_key, tensors);
  return r;
}

Collective collective_of(const Record& record) {
  const std::string word = record.schedule.substr(0, record.schedule.find(' '));
  const auto place = std::find(collective_names.begin(), collective_names.end(), word);
  return place == collective_names.end()
             ? Collective::all_reduce
             : static_cast<Collective>(place - collective_names.begin());
}

std::string_view order_of(const Record& record) {
  std::string_view rest = record.schedule;
  const Collective c = collective_of(record);
  if (c != Collective::all_reduce) rest.remove_prefix(name_of(c).size());
  if (rest.starts_with(' ')) rest.remove_prefix(1);
  return rest;
}

}  // namespace opbound
