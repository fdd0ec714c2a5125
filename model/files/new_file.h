#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace tp {

// A file that has its name only once it is complete. Until then it is beside it under another name,
// "NAME.unfinished", and locked where the file system can do that; it is removed with the object, and what an
// earlier process left of it is overwritten.
class NewFile {
 public:
  // Throws Error if the file cannot be created, or another process is writing it.
  explicit NewFile(const std::filesystem::path& path);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  const std::filesystem::path& unfinished() const { return unfinished_; }

  // Makes it so long, of zeros, and takes the space on the disk where its file system can do that: a disk
  // that is too small shows now. Throws Error.
  void reserve(std::uint64_t size);
  // Throws Error with the operating system's reason.
  void write(std::uint64_t begin, std::span<const std::byte> bytes);
  // Waits until the disk has all of it, and replaces what has the name. Throws Error.
  void finish();

 private:
  void require_done(bool condition) const;

  std::filesystem::path path_;
  std::filesystem::path unfinished_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

}  // namespace tp
