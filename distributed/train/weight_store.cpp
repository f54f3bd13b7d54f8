#include "distributed/train/weight_store.hpp"

#include <algorithm>

#include "distributed/train/cast_call.hpp"
#include "distributed/train/forward.hpp"

namespace opbound::train {
namespace {

constexpr std::int64_t alignment_bytes = 256;
constexpr std::size_t nothing = ~std::size_t{0};

bool passes_through_host(Sharding s) {
  return s == Sharding::zero3_fp32 || s == Sharding::zero3_offload;
}

/// Where a unit is gathered: what belongs to no layer has a place of its own.
std::size_t buffer_of(std::size_t unit) { return unit == 0 ? 0 : 1 + unit % 2; }

Format travelling(const TrainingSpec& spec) {
  if (spec.sharding == Sharding::zero3_offload) return bf16;
  return spec.sharding == Sharding::fsdp ? spec.gather : fp32;
}

std::int64_t bytes_of_format(const Format& f) { return bytes_of(element_of(f)); }

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
}

}  // namespace

WeightStore::WeightStore(const TrainingSpec& spec, const Layout& layout, std::byte* master,
                         Collectives& ranks, Machine& machine, const Provider& casts)
    : spec_(spec),
      layout_(layout),
      master_(master),
      ranks_(ranks),
      machine_(machine),
      casts_(casts),
      is_sharded_(is_sharded(spec.sharding)),
      travels_(travelling(spec)),
      addresses_(layout.parameters().size()),
      runs_(layout.units().size()) {
  const auto& parameters = layout.parameters();
  is_alias_ = !is_sharded_ &&
              std::all_of(parameters.begin(), parameters.end(), [&](const ParameterSpec& p) {
                return weight_format(spec.policy, p) == spec.policy.master;
              });
  std::vector<std::int64_t> unit_bytes;
  for (std::size_t u = 0; u < layout.units().size(); ++u) unit_bytes.push_back(find_runs(u));
  if (is_alias_) return;
  std::array<std::byte*, 3> buffers{};
  if (is_sharded_) buffers = gathering_buffers(unit_bytes);
  for (std::size_t u = 0; u < layout.units().size(); ++u) {
    std::byte* const base = is_sharded_ ? buffers[buffer_of(u)] : machine.allocate(unit_bytes[u]);
    for (Run& run : runs_[u]) addresses_[run.parameter] = base + run.offset_bytes;
    if (is_sharded_)
      shards_.push_back(machine.allocate(layout.units()[u].all.count() / ranks.size() *
                                         bytes_of_format(travels_)));
  }
}

std::array<std::byte*, 3> WeightStore::gathering_buffers(
    const std::vector<std::int64_t>& unit_bytes) {
  std::array<std::byte*, 3> buffers{};
  std::array<std::int64_t, 3> bytes{}, counts{};
  for (std::size_t u = 0; u < unit_bytes.size(); ++u) {
    bytes[buffer_of(u)] = std::max(bytes[buffer_of(u)], unit_bytes[u]);
    counts[buffer_of(u)] = std::max(counts[buffer_of(u)], layout_.units()[u].all.count());
  }
  for (std::size_t b = 0; b < buffers.size(); ++b) {
    buffers[b] = machine_.allocate(bytes[b]);
    gathered_.push_back(machine_.allocate(counts[b] * bytes_of_format(travels_)));
  }
  there_.assign(buffers.size(), nothing);
  host_.resize(passes_through_host(spec_.sharding) ? unit_bytes.size() : 0);
  return buffers;
}

/// The unit's parameters one after the other, each in its format; the bytes that they take.
std::int64_t WeightStore::find_runs(std::size_t unit) {
  const Range& all = layout_.units()[unit].all;
  std::int64_t bytes = 0;
  for (std::size_t p = 0; p < addresses_.size(); ++p) {
    const Range& range = layout_.parameter(p);
    if (range.begin < all.begin || range.end > all.end) continue;
    if (is_alias_) addresses_[p] = master_ + range.begin * bytes_of_format(spec_.policy.master);
    const Format format = weight_format(spec_.policy, layout_.parameters()[p]);
    runs_[unit].push_back({p, format, bytes});
    bytes += aligned(range.count() * bytes_of_format(format));
  }
  return bytes;
}

void WeightStore::cast_runs(std::size_t unit, std::byte* from, const Format& format) {
  const std::int64_t begin = layout_.units()[unit].all.begin;
  for (const Run& run : runs_[unit]) {
    const Range& range = layout_.parameter(run.parameter);
    cast_array(machine_, casts_, from + (range.begin - begin) * bytes_of_format(format), format,
               addresses_[run.parameter], run.format, range.count());
  }
}

void WeightStore::refresh() {
  if (is_alias_) return;
  if (is_sharded_ || !casts_.is_replayable()) return cast_all();
  machine_.replay(reinterpret_cast<std::uintptr_t>(this), [this] { cast_all(); });
}

void WeightStore::cast_all() {
  const Format master = spec_.policy.master;
  std::byte* own = master_;
  for (std::size_t u = 0; u < layout_.units().size(); ++u) {
    if (!is_sharded_) {
      cast_runs(u, own, master);
      own += layout_.units()[u].all.count() * bytes_of_format(master);
      continue;
    }
    const std::int64_t count = layout_.units()[u].all.count() / ranks_.size();
    cast_array(machine_, casts_, own, master, shards_[u], travels_, count);
    own += count * bytes_of_format(master);
    if (host_.empty()) continue;
    host_[u].resize(static_cast<std::size_t>(count * bytes_of_format(travels_)));
    machine_.read(host_[u].data(), shards_[u], static_cast<std::int64_t>(host_[u].size()));
  }
  std::fill(there_.begin(), there_.end(), nothing);
}

void WeightStore::enter(int layer) {
  if (!is_sharded_) return;
  const auto unit = static_cast<std::size_t>(std::int64_t{layer} + 1);
  const std::size_t buffer = buffer_of(unit);
  if (there_[buffer] == unit) return;
  const std::int64_t all = layout_.units()[unit].all.count(), count = all / ranks_.size();
  const std::int64_t bytes = count * bytes_of_format(travels_);
  std::byte* const own = gathered_[buffer] + ranks_.rank() * bytes;
  if (host_.empty())
    machine_.copy(own, shards_[unit], bytes);
  else
    machine_.write(own, host_[unit].data(), bytes);
  ranks_.all_gather(gathered_[buffer], all, element_of(travels_), machine_.stream());
  cast_runs(unit, gathered_[buffer], travels_);
  there_[buffer] = unit;
}

}  // namespace opbound::train
