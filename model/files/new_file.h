#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace tp {

// A file that gets its name only when it is complete. Until then it is called "NAME.unfinished" in the same
// folder, and is locked if the file system has locks. The destructor removes an unfinished file. The
// constructor overwrites what an earlier process left.
class NewFile {
 public:
  // Throws Error if the file cannot be created, or another process is writing it.
  explicit NewFile(const std::filesystem::path& path);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  const std::filesystem::path& unfinished() const { return unfinished_; }

  // Makes the file `size` bytes long, all zero. Reserves the space if the file system supports that, so that
  // a full disk is noticed now. Throws Error.
  void reserve(std::uint64_t size);
  // Throws Error with the operating system's reason.
  void write(std::uint64_t begin, std::span<const std::byte> bytes);
  // Waits until all data is on the disk, then replaces the file of this name, if any. Throws Error.
  void finish();

 private:
  void require_done(bool condition) const;

  std::filesystem::path path_;
  std::filesystem::path unfinished_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

}  // namespace tp
