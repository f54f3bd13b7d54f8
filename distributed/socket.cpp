#include "distributed/socket.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "ops/provider.hpp"

namespace opbound {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw ProviderFailure("tcp: " + what + ": " + std::strerror(errno));
}

/// The addresses of a host by name or number; its own where `host` is null.
std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses_of(const char* host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = host == nullptr ? AI_PASSIVE : 0;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(host, std::to_string(port).c_str(), &hints, &found);
  if (code != 0)
    throw ProviderFailure(std::string("tcp: ") + (host == nullptr ? "own address" : host) + ": " +
                          gai_strerror(code));
  return {found, freeaddrinfo};
}

/// Small messages leave at once.
void send_at_once(int descriptor) {
  const int yes = 1;
  if (setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes) != 0) refuse("setsockopt");
}

std::chrono::microseconds left_until(Deadline deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::microseconds>(deadline - std::chrono::steady_clock::now());
  return std::max(left, std::chrono::microseconds(0));
}

/// Calls of this socket give up at the deadline: SO_RCVTIMEO or SO_SNDTIMEO.
void limit(int descriptor, int which, Deadline deadline) {
  const auto left = std::max(left_until(deadline), std::chrono::microseconds(1));  // 0: for ever
  const timeval time{left.count() / 1000000, left.count() % 1000000};
  if (setsockopt(descriptor, SOL_SOCKET, which, &time, sizeof time) != 0) refuse("setsockopt");
}

bool is_late(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

sockaddr_in address(int descriptor, int (*ask)(int, sockaddr*, socklen_t*)) {
  sockaddr_in found{};
  socklen_t size = sizeof found;
  if (ask(descriptor, reinterpret_cast<sockaddr*>(&found), &size) != 0) refuse("getsockname");
  return found;
}

}  // namespace

Deadline deadline_in(double seconds) {
  using Clock = std::chrono::steady_clock;
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

Socket::~Socket() {
  if (descriptor_ >= 0) close(descriptor_);
}

Socket Socket::listen(std::uint16_t port, int backlog) {
  const auto own = addresses_of(nullptr, port);
  Socket s(socket(own->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  if (s.descriptor_ < 0 ||
      setsockopt(s.descriptor_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0)
    refuse("socket");
  if (bind(s.descriptor_, own->ai_addr, own->ai_addrlen) != 0 ||
      ::listen(s.descriptor_, backlog) != 0)
    refuse("port " + std::to_string(port));
  return s;
}

Socket Socket::connect(const std::string& host, std::uint16_t port, Deadline deadline) {
  const auto other = addresses_of(host.c_str(), port);
  for (;;) {
    Socket s(socket(other->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (s.descriptor_ < 0) refuse("socket");
    limit(s.descriptor_, SO_SNDTIMEO, deadline);  // of connect too: a machine that does not answer
    if (::connect(s.descriptor_, other->ai_addr, other->ai_addrlen) == 0) {
      send_at_once(s.descriptor_);
      return s;
    }
    if (errno == EINPROGRESS) errno = ETIMEDOUT;
    if (std::chrono::steady_clock::now() > deadline) refuse(host + ":" + std::to_string(port));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

Socket Socket::accept(Deadline deadline) const {
  pollfd waits{descriptor_, POLLIN, 0};
  int ready = -1;
  do {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(left_until(deadline));
    ready = poll(&waits, 1, static_cast<int>(left.count()));
  } while (ready < 0 && errno == EINTR);
  if (ready == 0) return {};
  Socket s(ready < 0 ? -1 : accept4(descriptor_, nullptr, nullptr, SOCK_CLOEXEC));
  if (s.descriptor_ < 0) refuse("accept");
  send_at_once(s.descriptor_);
  return s;
}

std::uint16_t Socket::port() const { return ntohs(address(descriptor_, getsockname).sin_port); }

std::string Socket::peer_host() const {
  const sockaddr_in other = address(descriptor_, getpeername);
  std::array<char, NI_MAXHOST> text{};
  if (getnameinfo(reinterpret_cast<const sockaddr*>(&other), sizeof other, text.data(), text.size(),
                  nullptr, 0, NI_NUMERICHOST) != 0)
    refuse("getnameinfo");
  return text.data();
}

void Socket::send_all(std::span<const std::byte> bytes, Deadline deadline,
                      const std::string& whom) const {
  while (!bytes.empty()) {
    limit(descriptor_, SO_SNDTIMEO, deadline);
    const ssize_t n = send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && is_late(errno)) throw ProviderFailure("tcp: " + whom + " takes nothing");
    if (n < 0 && errno != EINTR) refuse("sending to " + whom);
    if (n > 0) bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

void Socket::receive_all(std::span<std::byte> bytes, Deadline deadline,
                         const std::string& whom) const {
  while (!bytes.empty()) {
    limit(descriptor_, SO_RCVTIMEO, deadline);
    const ssize_t n = recv(descriptor_, bytes.data(), bytes.size(), 0);
    if (n == 0) throw ProviderFailure("tcp: " + whom + " is gone");
    if (n < 0 && is_late(errno))
      throw ProviderFailure("tcp: " + whom + " has come and says nothing");
    if (n < 0 && errno != EINTR) refuse("receiving from " + whom);
    if (n > 0) bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

}  // namespace opbound
