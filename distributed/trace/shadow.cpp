#include "distributed/trace/shadow.hpp"

#include <cstring>
#include <numeric>

#include "ops/hash.hpp"

namespace opbound::trace {

void Intervals::add(std::int64_t begin, std::int64_t end) {
  if (begin >= end) return;
  auto at = ends_.lower_bound(begin);  // what it touches is joined
  while (at != ends_.end() && at->second <= end) {
    begin = std::min(begin, at->second);
    end = std::max(end, at->first);
    at = ends_.erase(at);
  }
  ends_[end] = begin;
}

std::vector<Shadow::Piece> Shadow::fetched(train::Machine& machine, const TensorView& view,
                                           std::int64_t offset) {
  std::vector<Piece> pieces;
  const std::int64_t extent = view.extent();
  if (extent == 0) return pieces;
  element_ = view.element;
  if (const auto all = static_cast<std::size_t>((offset + extent) * width()); bytes_.size() < all)
    bytes_.resize(all);
  buffer_.resize(static_cast<std::size_t>(extent * width()));
  machine.read(buffer_.data(), view.data, extent * width());
  // Axes from the widest stride to the narrowest, whatever the op calls them, and what lies densely
  // in one run.
  std::vector<int> axes;
  for (int axis = 0; axis < view.rank; ++axis)
    if (view.size[axis] > 1 && view.stride[axis] != 0) axes.push_back(axis);
  std::sort(axes.begin(), axes.end(),
            [&](int a, int b) { return view.stride[a] > view.stride[b]; });
  std::int64_t run = 1;
  while (!axes.empty() && view.stride[axes.back()] == run) {
    run *= view.size[axes.back()];
    axes.pop_back();
  }
  std::vector<std::int64_t> at(axes.size(), 0);
  while (true) {
    std::int64_t place = 0;
    for (std::size_t a = 0; a < axes.size(); ++a) place += at[a] * view.stride[axes[a]];
    pieces.push_back({offset + place, run, buffer_.data() + place * width()});
    std::size_t a = axes.size();
    while (a > 0 && ++at[a - 1] == view.size[axes[a - 1]]) at[--a] = 0;
    if (a == 0) return pieces;
  }
}

void Shadow::compare(std::int64_t first, std::int64_t last, const std::byte* now,
                     std::optional<Difference>& difference) const {
  const std::byte* const then = bytes_.data() + first * width();
  if (std::memcmp(now, then, static_cast<std::size_t>((last - first) * width())) == 0) return;
  for (std::int64_t i = 0; i < last - first; ++i) {
    const std::int64_t at = i * width();
    if (std::memcmp(now + at, then + at, static_cast<std::size_t>(width())) == 0) continue;
    if (!difference)
      difference = Difference{first + i, load(element_, now, i), load(element_, then, i), 0};
    ++difference->count;
  }
}

void Shadow::keep(const Piece& piece) {
  std::memcpy(bytes_.data() + piece.first * width(), piece.now,
              static_cast<std::size_t>(piece.count * width()));
}

std::optional<Difference> Shadow::read(train::Machine& machine, const TensorView& view,
                                       std::int64_t offset, Runs* news) {
  std::optional<Difference> difference;
  Runs unknown;
  for (const Piece& p : fetched(machine, view, offset)) {
    known_.walk(
        p.first, p.first + p.count,
        [&](std::int64_t a, std::int64_t b) {
          compare(a, b, p.now + (a - p.first) * width(), difference);
        },
        [&](std::int64_t a, std::int64_t b) { unknown.emplace_back(a, b); });
    keep(p);
  }
  for (const auto& [a, b] : unknown) known_.add(a, b);
  if (news != nullptr) *news = std::move(unknown);
  return difference;
}

void Shadow::wrote(train::Machine& machine, const TensorView& view, std::int64_t offset) {
  for (const Piece& p : fetched(machine, view, offset)) {
    keep(p);
    known_.add(p.first, p.first + p.count);
  }
}

void Shadow::set(Element element, std::int64_t first, std::int64_t count, const std::byte* bytes) {
  element_ = element;
  if (const auto all = static_cast<std::size_t>((first + count) * width()); bytes_.size() < all)
    bytes_.resize(all);
  keep({first, count, bytes});
  known_.add(first, first + count);
}

TensorView Shadow::here(TensorView view, std::int64_t offset) const {
  view.data = bytes_.data() + offset * width();
  return view;
}

std::optional<Difference> Shadow::compared(std::int64_t first, std::int64_t count,
                                           const std::byte* now) const {
  std::optional<Difference> difference;
  known_.walk(
      first, first + count,
      [&](std::int64_t a, std::int64_t b) {
        compare(a, b, now + (a - first) * width(), difference);
      },
      [](std::int64_t, std::int64_t) {});
  return difference;
}

std::uint64_t Shadow::hash() const {
  std::uint64_t hash = 0;
  for (const auto& [end, begin] : known_.ends())
    hash += element_hash(begin, hash_of_bytes(bytes_.data() + begin * width(),
                                              static_cast<std::size_t>((end - begin) * width())));
  return hash;
}

std::uint64_t hash_of_bytes(const std::byte* bytes, std::size_t count) {
  std::uint64_t hash = 0;
  std::int64_t place = 0;
  for (std::size_t at = 0; at < count; at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + at, std::min<std::size_t>(8, count - at));
    hash += element_hash(place++, word);
  }
  return hash;
}

}  // namespace opbound::trace
