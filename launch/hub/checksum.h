#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace tp {

// The checksums by which the Hub identifies a file's content.
enum class ChecksumKind : std::uint8_t {
  sha256,    // SHA-256 of a large file, which git's LFS stores
  git_blob,  // SHA-1 of a small file after git's header
};

// Checksum of successive bytes. Uses OpenSSL, which libcurl loads anyway.
class Checksum {
 public:
  // `size` is the number of all bytes, which git's header contains.
  Checksum(ChecksumKind kind, std::uint64_t size);
  ~Checksum();
  Checksum(Checksum&&) noexcept;
  Checksum& operator=(Checksum&&) noexcept;

  void add(std::string_view bytes);

  // Ends the computation and returns the checksum in lower-case hexadecimal.
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tp
