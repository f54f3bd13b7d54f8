#include "suites/sha256.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace opbound {

static_assert(std::endian::native == std::endian::little, "a block's words are big-endian");

namespace {

/// The fractional parts of the cube roots of the first 64 primes.
constexpr std::array<std::uint32_t, 64> constants{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

/// Eight words of a block or of the state; the standard's a to h.
struct Working {
  std::uint32_t a, b, c, d, e, f, g, h;

  void round(std::uint32_t constant_and_word) {
    const std::uint32_t sum1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const std::uint32_t choice = (e & f) ^ (~e & g);
    const std::uint32_t t1 = h + sum1 + choice + constant_and_word;
    const std::uint32_t sum0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const std::uint32_t majority = (a & b) ^ (a & c) ^ (b & c);
    h = g, g = f, f = e, e = d + t1;
    d = c, c = b, b = a, a = t1 + sum0 + majority;
  }
};

}  // namespace

void Sha256::compress(const std::byte* block) {
  std::array<std::uint32_t, 64> word{};
  std::memcpy(word.data(), block, 64);
  for (std::size_t i = 0; i < 16; ++i) word[i] = __builtin_bswap32(word[i]);  // big-endian
  for (std::size_t i = 16; i < 64; ++i) {
    const std::uint32_t x = word[i - 15], y = word[i - 2];
    word[i] = word[i - 16] + (std::rotr(x, 7) ^ std::rotr(x, 18) ^ (x >> 3)) + word[i - 7] +
              (std::rotr(y, 17) ^ std::rotr(y, 19) ^ (y >> 10));
  }
  Working w{state_[0], state_[1], state_[2], state_[3], state_[4], state_[5], state_[6], state_[7]};
  for (std::size_t i = 0; i < 64; ++i) w.round(constants[i] + word[i]);
  const std::array<std::uint32_t, 8> added{w.a, w.b, w.c, w.d, w.e, w.f, w.g, w.h};
  for (std::size_t i = 0; i < 8; ++i) state_[i] += added[i];
}

void Sha256::take(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t at = taken_ % block_.size();
    const std::size_t n = std::min(bytes.size(), block_.size() - at);
    std::memcpy(block_.data() + at, bytes.data(), n);
    taken_ += n;
    bytes = bytes.subspan(n);
    if (at + n == block_.size()) compress(block_.data());
  }
}

std::string Sha256::digest() {
  // One bit 1, zeros up to eight bytes before the end of a block, and the length in bits.
  const std::uint64_t bits = taken_ * 8;
  std::array<std::byte, 72> end{std::byte{0x80}};
  const std::size_t zeros = (64 + 55 - taken_ % 64) % 64;
  for (std::size_t i = 0; i < 8; ++i)
    end[1 + zeros + i] = static_cast<std::byte>(bits >> (56 - 8 * i));
  take(std::span(end).first(1 + zeros + 8));

  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const std::uint32_t word : state_)
    for (int shift = 28; shift >= 0; shift -= 4) text += digits[(word >> shift) & 15];
  return text;
}

std::string sha256(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.take(bytes);
  return hash.digest();
}

}  // namespace opbound
