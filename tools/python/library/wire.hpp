// What libopbound and the program `opbound serve` say to each other: JSON texts over a socket, each
// behind its length, and one file of memory that both map.
//
//   library: {"ask": "verify" | "judge", ...}
//   program:   {"record": "..."}, any number of times
//              {"call": {...}}: the kernel shall run on the memory; library: {"status", "message"}
//   program: {"done": true} or {"error": "one line"}
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

namespace opbound::wire {

using Json = nlohmann::ordered_json;

/// A descriptor, closed with its owner.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number() const { return number_; }
  void reset(int number);

 private:
  int number_;
};

/// False when the other side is gone.
bool send(int socket, const Json& message);

/// Nothing when the other side is gone. Throws std::runtime_error for what is no message.
std::optional<Json> receive(int socket);

/// The file of memory, mapped. Who makes it larger maps it again; the other side maps as much as it
/// is told.
class Memory {
 public:
  explicit Memory(int file) : file_(file) {}
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  /// So many bytes; `grows`: of a file that is made large enough. Throws std::runtime_error.
  std::span<std::byte> map(std::uint64_t bytes, bool grows);

 private:
  void unmap();

  int file_;
  std::byte* data_ = nullptr;
  std::uint64_t bytes_ = 0;
};

}  // namespace opbound::wire
