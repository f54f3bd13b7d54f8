// What a program's memory holds, as those who wrote it left it: a copy on the host of every value
// that a later call reads.
//
// A call reads what its producer wrote, or something is wrong between them: a copy that was not
// waited for, a buffer that somebody else used, a gather that came late. The bytes are compared,
// not a hash of them, so that what differs can be named.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "distributed/train/machine.hpp"
#include "distributed/train/tape.hpp"

namespace opbound::trace {

/// Rising, disjoint half-open intervals.
class Intervals {
 public:
  void add(std::int64_t begin, std::int64_t end);
  /// action(first, last) for each part of [begin, end) that is in, or is not.
  template <class In, class Out>
  void walk(std::int64_t begin, std::int64_t end, In in, Out out) const {
    auto at = ends_.upper_bound(begin);  // the first interval that ends behind `begin`
    while (begin < end) {
      if (at == ends_.end() || at->second >= end) return out(begin, end);
      if (at->second > begin) out(begin, at->second);
      const std::int64_t first = std::max(begin, at->second), last = std::min(end, at->first);
      in(first, last);
      begin = last;
      ++at;
    }
  }
  const std::map<std::int64_t, std::int64_t>& ends() const { return ends_; }  ///< end -> begin

 private:
  std::map<std::int64_t, std::int64_t> ends_;
};

/// Elements of a value that are not what was written there.
struct Difference {
  std::int64_t index = 0;  ///< the first: place in the value
  double got = 0, expected = 0;
  std::uint64_t count = 0;
};

/// One value. Places count elements from its first one.
class Shadow {
 public:
  /// Runs of elements, [first, last).
  using Runs = std::vector<std::pair<std::int64_t, std::int64_t>>;

  /// What the machine holds in the view's elements, which begin at `offset`: those that are known
  /// are compared; all are known from now on, as they are. `news`: those that were not.
  std::optional<Difference> read(train::Machine& machine, const TensorView& view,
                                 std::int64_t offset, Runs* news = nullptr);
  void wrote(train::Machine& machine, const TensorView& view, std::int64_t offset);

  /// So many elements from `first` on are these.
  void set(Element element, std::int64_t first, std::int64_t count, const std::byte* bytes);

  /// The view's elements here.
  TensorView here(TensorView view, std::int64_t offset) const;
  /// These bytes, of elements from `first` on, against what is known of them.
  std::optional<Difference> compared(std::int64_t first, std::int64_t count,
                                     const std::byte* now) const;
  const std::byte* bytes() const { return bytes_.data(); }
  Element element() const { return element_; }
  const Intervals& known() const { return known_; }
  /// Of what is known, by its place.
  std::uint64_t hash() const;

 private:
  struct Piece {
    std::int64_t first, count;
    const std::byte* now;  ///< in buffer_
  };

  std::vector<Piece> fetched(train::Machine& machine, const TensorView& view, std::int64_t offset);
  void compare(std::int64_t first, std::int64_t last, const std::byte* now,
               std::optional<Difference>& difference) const;
  void keep(const Piece& piece);
  std::int64_t width() const { return bytes_of(element_); }

  Element element_ = Element::fp32;
  mutable std::vector<std::byte> bytes_;  ///< a view is a handle that may write; nobody does
  std::vector<std::byte> buffer_;
  Intervals known_;
};

/// Of bytes, 8 at a time, in their order.
std::uint64_t hash_of_bytes(const std::byte* bytes, std::size_t count);

}  // namespace opbound::trace
