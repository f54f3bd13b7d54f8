// Bytes that come over TCP instead of a rank: who it is, where it listens, messages.
#include <algorithm>
#include <array>
#include <cstring>
#include <thread>

#include "distributed/socket.hpp"
#include "distributed/tcp.hpp"
#include "tests/fuzz/target.hpp"

namespace opbound::fuzz {
namespace {

/// Says to rank 0 what the input says: eight bytes at the door, all others where it listens.
void be_rank_one(const MeetingPlace& place, Bytes input) {
  constexpr std::size_t door_bytes = 8, table_bytes = 136, port_at = 64;
  const auto bytes = std::as_bytes(input);
  const Deadline deadline = deadline_in(1);
  try {
    const Socket door = Socket::connect(place.host, place.port, deadline);
    door.send_all(bytes.first(std::min(door_bytes, bytes.size())), deadline, "rank 0");
    if (bytes.size() < door_bytes) return;
    std::array<std::byte, table_bytes> table{};  // two addresses: 64 bytes of host, a port
    door.receive_all(table, deadline, "rank 0");
    std::int32_t port = 0;
    std::memcpy(&port, table.data() + port_at, sizeof port);
    const Socket own = Socket::connect(place.host, static_cast<std::uint16_t>(port), deadline);
    own.send_all(bytes.subspan(door_bytes), deadline, "rank 0");
  } catch (const ProviderFailure&) {  // rank 0 had enough of it
  }
}

}  // namespace

void frames(Bytes input) {
  Socket free = Socket::listen(0, 1);  // whose port is ours in a moment
  const MeetingPlace place{"127.0.0.1", free.port()};
  free = Socket();
  std::thread other([&] { be_rank_one(place, input); });
  reads([&] {
    const auto ranks = tcp_communicator({0, 2, 0, "fuzzer"}, place, 1);
    std::array<std::byte, 24> sent{}, received{};
    const std::array<Sent, 1> out{{{1, 7, sent}}};
    for (const std::size_t size : {received.size(), std::size_t{0}, std::size_t{5}}) {
      const std::array<Received, 1> in{{{1, 7, std::span(received).first(size)}}};
      ranks->exchange(out, in);
    }
  });
  other.join();
}

}  // namespace opbound::fuzz

OPBOUND_FUZZ_TARGET(frames)
