#pragma once

#include "launch/hub/hub_file.h"
#include "launch/hub/locked_file.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>

namespace tp {

// The beginning of a file, which this process or a later one continues. The checksum is computed on the way,
// so a large file isn't read twice.
class PartialFile {
 public:
  // Continues the file that an earlier process left at `path`, unless it is larger than expected.
  PartialFile(const std::filesystem::path& path, const HubFile& file, const std::function<void()>& on_wait);

  std::uint64_t size() const { return size_; }

  // Throws DownloadError if the bytes cannot be written.
  void append(std::string_view bytes);
  void restart();

  // Whether the complete file has the expected checksum. Call it only once.
  bool is_valid();
  // Renames the complete file atomically. Replaces an existing file.
  void move_to(const std::filesystem::path& path);
  void remove();

 private:
  void read_existing();
  void require_written(bool condition) const;

  std::filesystem::path path_;
  HubFile file_;
  LockedFile lock_;
  std::uint64_t size_ = 0;
  Checksum checksum_;
};

}  // namespace tp
