#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>

namespace tp {

// An open regular file. Everything else in its place is refused, because opening a pipe waits for another
// process.
class RegularFile {
 public:
  // `flags` and `mode` are those of open(2). Does not throw.
  explicit RegularFile(const std::filesystem::path& path, int flags = O_RDONLY, mode_t mode = 0);
  ~RegularFile();
  RegularFile(const RegularFile&) = delete;
  RegularFile& operator=(const RegularFile&) = delete;

  bool is_open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  // The reason why the file is not open; empty if it is open.
  const std::string& error() const { return error_; }
  // Status of the open file.
  const struct stat& status() const { return status_; }
  std::uint64_t size() const { return static_cast<std::uint64_t>(status_.st_size); }
  // Whether the file belongs to the user who runs this process.
  bool is_own() const;
  // The caller closes the descriptor.
  int release();

  // Reads up to `size` bytes from the current position. Returns the number of bytes, or -1.
  ssize_t read(void* out, std::size_t size) const;
  // Everything from the current position; empty if the file is not open or cannot be read.
  std::string text() const;

 private:
  int descriptor_ = -1;
  struct stat status_ {};
  std::string error_;
};

}  // namespace tp
