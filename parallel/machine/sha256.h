#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tp {

using Sha256Digest = std::array<std::uint8_t, 32>;

// SHA-256 of bytes that arrive in pieces. Written here because programs that link the engine's library should
// not need OpenSSL. Source: FIPS 180-4.
class Sha256 {
 public:
  Sha256& add(std::span<const std::byte> bytes);
  // Call it once, last.
  Sha256Digest finish();

 private:
  void add_block();

  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::uint8_t, 64> block_{};
  std::size_t filled_ = 0;  // bytes of block_
  std::uint64_t bytes_ = 0;
};

}  // namespace tp
