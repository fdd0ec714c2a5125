#pragma once

#include "launch/hub/hub_file.h"
#include "launch/hub/locked_file.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>

namespace tp {

// The beginning of a file, to be continued by this process or a later one. Its checksum is computed along the
// way: a large file is not read a second time.
class PartialFile {
 public:
  // What an earlier process left at `path` counts, unless it is longer than the file.
  PartialFile(const std::filesystem::path& path, const HubFile& file, const std::function<void()>& on_wait);

  std::uint64_t size() const { return size_; }

  // Throws DownloadError if the bytes cannot be written.
  void append(std::string_view bytes);
  void restart();

  // Whether the bytes, all of which are there, are those of the file. To be called once.
  bool is_valid();
  // Gives the complete file its name, at once for whoever looks; what had that name is replaced.
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
