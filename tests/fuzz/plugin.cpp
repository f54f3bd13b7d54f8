// What a plug-in's process says: packets, and the texts that describe it.
#include <sys/socket.h>

#include <array>

#include "ops/providers/plugin_description.hpp"
#include "ops/providers/plugin_process.hpp"
#include "tests/fuzz/target.hpp"

namespace opbound::fuzz {

void plugin(Bytes input) {
  std::array<int, 2> ends{};
  require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) == 0, "two sockets");
  const bool is_sent = send(ends[0], input.data(), input.size(), MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
  close(ends[0]);
  detail::Answer answer;
  const bool is_there = is_sent && detail::receive_answer(ends[1], answer);
  close(ends[1]);
  if (!is_there) return;
  reads([&] {
    const detail::Description read(detail::split(answer.text));
    for (const detail::Listed& one : read.listed)
      for (const int variant : one.variants)
        require(variant >= 0 && variant < std::ssize(one.op->variants), "variants of the op");
  });
  detail::whole_number(answer.text);
}

}  // namespace opbound::fuzz

OPBOUND_FUZZ_TARGET(plugin)
