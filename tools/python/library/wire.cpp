#include "tools/python/library/wire.hpp"

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

namespace opbound::wire {
namespace {

/// No message is longer: a record has some kilobytes.
constexpr std::uint64_t longest = std::uint64_t{1} << 26;

/// Moves all bytes; false when the other side is gone.
template <class Byte, class Move>
bool move_all(Byte* data, std::uint64_t bytes, Move move) {
  while (bytes > 0) {
    const ssize_t moved = move(data, bytes);
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) return false;
    data += moved;
    bytes -= static_cast<std::uint64_t>(moved);
  }
  return true;
}

}  // namespace

Descriptor::~Descriptor() { reset(-1); }

void Descriptor::reset(int number) {
  if (number_ >= 0) close(number_);
  number_ = number;
}

bool send(int socket, const Json& message) {
  const std::string text = message.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string bytes(sizeof(std::uint64_t), '\0');
  const std::uint64_t size = text.size();
  std::memcpy(bytes.data(), &size, sizeof size);
  bytes += text;
  return move_all(bytes.data(), bytes.size(), [&](const char* data, std::uint64_t left) {
    return ::send(socket, data, left, MSG_NOSIGNAL);
  });
}

std::optional<Json> receive(int socket) {
  const auto take = [&](char* data, std::uint64_t bytes) {
    return move_all(data, bytes,
                    [&](char* at, std::uint64_t left) { return ::recv(socket, at, left, 0); });
  };
  std::string text(sizeof(std::uint64_t), '\0');
  if (!take(text.data(), text.size())) return std::nullopt;
  std::uint64_t size = 0;
  std::memcpy(&size, text.data(), sizeof size);
  if (size > longest) throw std::runtime_error("a message of " + std::to_string(size) + " bytes");
  text.resize(size);
  if (!take(text.data(), size)) return std::nullopt;
  Json message = Json::parse(text, nullptr, false);
  if (!message.is_object()) throw std::runtime_error("a message that is no JSON object");
  return message;
}

Memory::~Memory() { unmap(); }

void Memory::unmap() {
  if (data_ != nullptr) munmap(data_, bytes_);
  data_ = nullptr;
  bytes_ = 0;
}

std::span<std::byte> Memory::map(std::uint64_t bytes, bool grows) {
  if (bytes <= bytes_) return {data_, bytes};
  const auto fail = [](const char* call) {
    throw std::runtime_error(std::string("shared memory: ") + call + ": " + std::strerror(errno));
  };
  unmap();
  if (grows && ftruncate(file_, static_cast<off_t>(bytes)) != 0) fail("ftruncate");
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (data == MAP_FAILED) fail("mmap");
  data_ = static_cast<std::byte*>(data);
  bytes_ = bytes;
  return {data_, bytes_};
}

}  // namespace opbound::wire
