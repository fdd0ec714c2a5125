// Files for fuzzers of readers that take a path.
#pragma once

#include "tp/error.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

namespace tp {

using FuzzBytes = std::span<const std::uint8_t>;

// The parts of an input before and after its first zero byte.
inline std::optional<std::pair<FuzzBytes, FuzzBytes>> divided_at_zero(FuzzBytes input) {
  const auto end = static_cast<std::size_t>(std::ranges::find(input, 0) - input.begin());
  if (end == input.size()) return std::nullopt;
  return std::pair(input.first(end), input.subspan(end + 1));
}

inline std::string text_of(FuzzBytes bytes) { return {bytes.begin(), bytes.end()}; }

// A file without a name. Every input overwrites it.
class ScratchFile {
 public:
  ScratchFile() : descriptor_(::memfd_create("fuzz", 0)) {}

  bool write(FuzzBytes bytes) const {
    return ::ftruncate(descriptor_, 0) == 0 &&
           ::pwrite(descriptor_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size());
  }
  std::filesystem::path path() const { return fmt::format("/proc/self/fd/{}", descriptor_); }

 private:
  int descriptor_;
};

// A folder whose files every input overwrites.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = "/dev/shm/fuzz-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make a folder");
    path_ = name;
  }
  ~ScratchFolder() { std::filesystem::remove_all(path_); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void write(const char* name, FuzzBytes bytes) const {
    std::ofstream(path_ / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }

 private:
  std::filesystem::path path_;
};

// Damaged files must cause the program's own errors. Any other exception ends the fuzzer.
template <class Action>
void expect_error_or_none(const Action& action) {
  try {
    action();
  } catch (const Error&) {
  }
}

}  // namespace tp
