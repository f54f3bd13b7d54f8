// SHA-256 (FIPS 180-4), for hashes that other tools can repeat: `sha256sum FILE`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace opbound {

/// Takes bytes in any pieces; the digest is that of all of them.
class Sha256 {
 public:
  void take(std::span<const std::byte> bytes);

  /// 64 lower-case hexadecimal digits. Ends the hash: nothing may be taken afterwards.
  std::string digest();

 private:
  void compress(const std::byte* block);

  /// The fractional parts of the square roots of the first eight primes.
  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> block_{};
  std::uint64_t taken_ = 0;  ///< bytes
};

std::string sha256(std::span<const std::byte> bytes);

}  // namespace opbound
