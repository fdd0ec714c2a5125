#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace tp {

// By what the Hub identifies a file's content.
enum class ChecksumKind : std::uint8_t {
  sha256,    // of a large file, which git's LFS keeps
  git_blob,  // SHA-1 of a small one with git's header before it
};

// Of bytes that come one after another; by OpenSSL, which libcurl has loaded anyway.
class Checksum {
 public:
  // `size` is what all bytes will be: git's header has it.
  Checksum(ChecksumKind kind, std::uint64_t size);
  ~Checksum();
  Checksum(Checksum&&) noexcept;
  Checksum& operator=(Checksum&&) noexcept;

  void add(std::string_view bytes);

  // In hexadecimal, lower case. Ends the computation.
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tp
