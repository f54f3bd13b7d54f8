#include "tools/command_collective_case.hpp"

#include <fmt/format.h>

#include <charconv>

#include "suites/input.hpp"
#include "suites/suite_case.hpp"
#include "tools/command_case.hpp"

namespace opbound {
namespace {

bool is_extreme(const CaseSpec& spec) {
  const auto a = from_bytes<all_reduce::Attributes>(spec.attributes);
  return a.reduction == all_reduce::Reduction::min || a.reduction == all_reduce::Reduction::max;
}

std::vector<Collective> collectives_of(const CollectiveOptions& options) {
  std::vector<Collective> chosen;
  for (const std::string& word : options.collectives)
    chosen.push_back(static_cast<Collective>(place_of(word, collective_names, "collective")));
  if (chosen.empty())
    for (std::size_t c = 0; c < collective_names.size(); ++c)
      chosen.push_back(static_cast<Collective>(c));
  return chosen;
}

/// Elements are made for all ranks, and moves for all chunks, before anything runs.
void require_room(const Schedule& schedule, std::int64_t size) {
  if (size > detail::most_elements / schedule.ranks)
    throw InputError("--size", fmt::format("{} ranks of {} elements", schedule.ranks, size),
                     fmt::format("at most {} elements in all", detail::most_elements));
  constexpr std::int64_t most_messages = std::int64_t{1} << 25;
  const std::int64_t chunks = std::min<std::int64_t>(chunk_count(schedule), size);
  if (2 * chunks > most_messages / schedule.ranks)
    throw InputError("--size", fmt::format("{} ranks and {} chunks", schedule.ranks, chunks),
                     fmt::format("at most {} messages in all", most_messages));
}

}  // namespace

std::vector<TensorRange> read_tensors_of(const std::vector<std::string>& words, std::int64_t size) {
  std::vector<TensorRange> tensors;
  std::int64_t first = 0;
  for (const std::string& word : words) {
    const std::size_t sign = word.find('=');
    std::int64_t count = 0;
    const char* begin = word.data() + std::min(sign, word.size() - 1) + 1;
    const auto read = std::from_chars(begin, word.data() + word.size(), count);
    if (sign == 0 || sign == std::string::npos || word.find(',') != std::string::npos ||
        read.ec != std::errc{} || read.ptr != word.data() + word.size() || count < 0 ||
        count > size)
      throw InputError("--tensor", "'" + word + "'", "NAME=ELEMENTS");
    const std::string name = word.substr(0, sign);
    if (std::ranges::find(tensors, name, &TensorRange::name) != tensors.end())
      throw InputError("--tensor", "'" + name + "' twice", "a name of its own for each");
    tensors.push_back({name, {first, count}});
    first += count;
  }
  if (!tensors.empty() && first != size)
    throw InputError("--tensor", fmt::format("{} elements in all", first),
                     fmt::format("as many as --size says, {}", size));
  return tensors;
}

CollectiveSpec spec_of(const CollectiveOptions& options, const std::string& precision,
                       Collective collective, int order, std::int32_t ranks) {
  CollectiveSpec c;
  CaseWords words;
  words.op = "all_reduce";
  words.precision = precision;
  words.attributes = options.attributes;
  c.spec = read_case("collective", words);
  c.spec.sizes = {};
  c.spec.sizes[0] = ranks;
  c.spec.sizes[1] = options.size;
  c.spec.seed = options.ranks.seed;
  c.spec.inputs = {{"x", parse_input(options.input)}};
  const std::string_view wanted = c.spec.op->refuses(c.spec.attributes, c.spec.sizes);
  if (!wanted.empty()) throw InputError("--attribute", "attributes that do not fit", wanted);
  check_input(c.spec.inputs[0].second, element_of(c.spec.precision.storage));
  c.spec.variant = is_extreme(c.spec) ? all_reduce::any_order : order;
  c.spec.declared = {c.spec.variant};
  c.collective = collective;
  c.order = order;
  c.tensors = read_tensors_of(options.tensors, options.size);
  require_room(schedule_of(c), options.size);
  return c;
}

std::vector<int> orders_of(const CollectiveOptions& options) {
  std::vector<std::string_view> names;
  for (const Variant& v : all_reduce::variants) names.push_back(v.name);
  std::vector<int> orders;
  for (const std::string& word : options.orders)
    orders.push_back(static_cast<int>(place_of(word, names, "--order")));
  if (!orders.empty()) return orders;
  return all_orders();
}

std::vector<CollectiveSpec> cases_of(const CollectiveOptions& options, const Engine& engine) {
  const std::vector<int> orders =
      engine.traits().keeps_order ? orders_of(options) : std::vector<int>{all_reduce::any_order};
  std::vector<CollectiveSpec> cases;
  for (const Collective collective : collectives_of(options))
    for (const std::string& precision : options.precisions)
      for (const int order : orders) {
        CollectiveSpec c = spec_of(options, precision, collective, order, engine.ranks());
        if (!engine.traits().keeps_order) c.order = all_reduce::ring;  // how shards are cut
        const bool is_named = !options.orders.empty() || collective == Collective::all_reduce;
        if (is_named || refusal(schedule_of(c)).empty()) cases.push_back(std::move(c));
      }
  return cases;
}

}  // namespace opbound
