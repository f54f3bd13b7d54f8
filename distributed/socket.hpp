// Bytes over TCP, as little as a transport needs.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace opbound {

using Deadline = std::chrono::steady_clock::time_point;
Deadline deadline_in(double seconds);

/// A connected or listening socket. Every call throws ProviderFailure where the system refuses.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(other.descriptor_) { other.descriptor_ = -1; }
  Socket& operator=(Socket&& other) noexcept;
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket();

  /// On all of this machine's addresses; port 0: any that is free.
  static Socket listen(std::uint16_t port, int backlog);
  /// Tries again until the other side listens, or until the deadline, also where nothing answers.
  static Socket connect(const std::string& host, std::uint16_t port, Deadline deadline);
  /// The next one that connects before the deadline; none, of descriptor -1, where nobody does.
  Socket accept(Deadline deadline) const;

  int descriptor() const { return descriptor_; }
  std::uint16_t port() const;     ///< its own
  std::string peer_host() const;  ///< the other side's address

  // What is wrong is said of `whom`.
  void send_all(std::span<const std::byte> bytes, Deadline deadline, const std::string& whom) const;
  void receive_all(std::span<std::byte> bytes, Deadline deadline, const std::string& whom) const;

 private:
  int descriptor_ = -1;
};

}  // namespace opbound
