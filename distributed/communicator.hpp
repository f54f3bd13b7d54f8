// What a collective needs of a transport: to hand bytes to other ranks and to get theirs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace opbound {

/// Bytes for a rank, or from it. Messages of one sender to one receiver are told apart by `tag`.
struct Sent {
  std::int32_t to;
  std::int32_t tag;
  std::span<const std::byte> bytes;
};
struct Received {
  std::int32_t from;
  std::int32_t tag;
  std::span<std::byte> bytes;
};

/// One rank's access to all others. Every call throws ProviderFailure where the transport breaks,
/// with the rank and what it was about.
class Communicator {
 public:
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  virtual ~Communicator() = default;

  virtual std::int32_t rank() const = 0;
  virtual std::int32_t size() const = 0;

  /// Starts everything at once and returns when all of it is done; what ends it before is the
  /// transport's to say. A receiver's span has the
  /// sender's size.
  virtual void exchange(std::span<const Sent> sent, std::span<const Received> received) = 0;
};

/// Every rank's bytes, of one size, one after the other, on every rank: a ring.
std::vector<std::byte> gather_all(Communicator& communicator, std::span<const std::byte> own);

}  // namespace opbound
