#include "ops/providers/plugin_request.hpp"

#include <algorithm>
#include <cstring>

namespace opbound::detail {
namespace {

/// At least so many bytes on both sides of every tensor belong to nobody.
constexpr std::uint64_t guard = 4096;
constexpr std::uint64_t alignment = 256;  // as cudaMalloc's

constexpr std::uint64_t aligned(std::uint64_t offset) {
  return (offset + alignment - 1) / alignment * alignment;
}

/// Guard bytes are 0xfff5 in every half-word: NaN in all formats of 16 bits and more, so that a
/// kernel which reads beyond a tensor shows it; neither -1 nor the NaN that kernels make.
constexpr std::byte guard_byte(std::uint64_t offset) {
  return offset % 2 == 0 ? std::byte{0xf5} : std::byte{0xff};
}

std::uint64_t bytes_in(const TensorView& v) {
  return static_cast<std::uint64_t>(v.extent() * bytes_of(v.element));
}

const TensorView& view_of(const SharedTensor& t, std::span<const TensorView> views) {
  return views[static_cast<std::size_t>(t.place)];
}

/// What a plug-in may address, in the order in which it lies.
struct Area {
  std::string_view name;
  std::uint64_t begin, end;
};

std::vector<Area> areas_of(const Request& request) {
  std::vector<Area> areas;
  for (const SharedTensor& t : request.all())
    areas.push_back({request.name_of(t), t.offset, t.end()});
  if (request.workspace_bytes > 0)
    areas.push_back(
        {"the workspace", request.workspace, request.workspace + request.workspace_bytes});
  return areas;
}

/// The first byte of [begin, end) that is no guard byte any more, or end.
std::uint64_t first_changed(std::span<const std::byte> memory, std::uint64_t begin,
                            std::uint64_t end) {
  while (begin < end && memory[begin] == guard_byte(begin)) ++begin;
  return begin;
}

std::string outside_text(const Area* before, const Area* behind, std::uint64_t at) {
  const bool is_behind =
      behind == nullptr || (before != nullptr && at - before->end <= behind->begin - at);
  const std::uint64_t distance = is_behind ? at - before->end + 1 : behind->begin - at;
  return "it wrote outside of its tensors: " + std::to_string(distance) +
         (distance == 1 ? " byte " : " bytes ") +
         (is_behind ? "behind the end of " : "before the beginning of ") +
         std::string((is_behind ? before : behind)->name);
}

}  // namespace

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += text + '\0';
  return all;
}

std::vector<std::string> split(std::string_view joined) {
  std::vector<std::string> texts;
  while (!joined.empty()) {
    const std::size_t end = std::min(joined.find('\0'), joined.size());
    texts.emplace_back(joined.substr(0, end));
    joined.remove_prefix(std::min(end + 1, joined.size()));
  }
  return texts;
}

Request make_request(const Op& op, const Call& call, bool is_backward,
                     std::span<const TensorView> views) {
  Request r;
  r.op = &op;
  r.is_backward = is_backward;
  r.attributes = call.attributes;
  r.variant = call.variant;
  r.compute = element_of(call.compute);
  std::uint64_t end = aligned(sizeof(Request));
  for (std::size_t place = 0; place < views.size(); ++place) {
    const TensorSpec& spec = r.pass().tensors[place];
    if (spec.role == Role::scratch || !op.has_tensor(call.attributes, spec.name)) continue;
    SharedTensor& t = r.tensors[r.tensor_count++];
    t.place = static_cast<int>(place);
    t.view = views[place];
    t.view.data = nullptr;
    t.bytes = bytes_in(views[place]);
    const auto address = reinterpret_cast<std::uintptr_t>(views[place].data);
    // an input that is laid out one element behind an aligned address stays so
    t.offset = aligned(end + guard) + address % alignof(std::max_align_t);
    end = t.end();
  }
  return r;
}

std::uint64_t place_workspace(Request& request, std::uint64_t workspace_bytes) {
  std::uint64_t end = aligned(sizeof(Request));
  if (request.tensor_count > 0) end = request.all().back().end();
  request.workspace = aligned(end + guard);
  request.workspace_bytes = workspace_bytes;
  const std::uint64_t all = request.workspace + workspace_bytes + guard;
  return all < workspace_bytes ? workspace_bytes : all;  // more than there is, either way
}

void fill_memory(const Request& request, std::span<const TensorView> views,
                 std::span<std::byte> memory) {
  std::uint64_t end = sizeof(Request);
  const auto guard_to = [&](std::uint64_t begin) {
    for (; end < begin; ++end) memory[end] = guard_byte(end);
  };
  std::memcpy(memory.data(), &request, sizeof request);
  for (const SharedTensor& t : request.all()) {
    guard_to(t.offset);
    if (t.bytes > 0) std::memcpy(memory.data() + t.offset, view_of(t, views).data, t.bytes);
    end = t.end();
  }
  guard_to(memory.size());  // a workspace holds what lies between tensors: nothing to rely on
}

std::string trespass(const Request& request, std::span<const TensorView> views,
                     std::span<const std::byte> memory) {
  std::uint64_t end = sizeof(Request);
  const Area* before = nullptr;
  const std::vector<Area> areas = areas_of(request);
  const auto* told = reinterpret_cast<const std::byte*>(&request);
  const auto* changed = std::mismatch(told, told + sizeof request, memory.data()).first;
  if (changed < told + sizeof request)
    return outside_text(nullptr, &areas.front(), static_cast<std::uint64_t>(changed - told));
  for (const Area& area : areas) {
    const std::uint64_t at = first_changed(memory, end, area.begin);
    if (at < area.begin) return outside_text(before, &area, at);
    before = &area;
    end = area.end;
  }
  const std::uint64_t at = first_changed(memory, end, memory.size());
  if (at < memory.size()) return outside_text(before, nullptr, at);
  for (const SharedTensor& t : request.all()) {
    const TensorSpec& spec = request.pass().tensors[static_cast<std::size_t>(t.place)];
    if (spec.is_written() || t.bytes == 0) continue;
    if (std::memcmp(memory.data() + t.offset, view_of(t, views).data, t.bytes) != 0)
      return "it changed its input " + std::string(spec.name);
  }
  return {};
}

void take_outputs(const Request& request, std::span<const TensorView> views,
                  std::span<const std::byte> memory) {
  for (const SharedTensor& t : request.all())
    if (request.pass().tensors[static_cast<std::size_t>(t.place)].is_written() && t.bytes > 0)
      std::memcpy(view_of(t, views).data, memory.data() + t.offset, t.bytes);
}

}  // namespace opbound::detail
