// A file mapped into memory for reading.
#pragma once

#include "parallel/shard/shard.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace tp {

// All bytes of a regular file. Pages are read from disk when they are first touched. The file must not be
// truncated while it is mapped: touching a missing page ends the process (SIGBUS).
class MappedFile {
 public:
  // Throws CheckpointError if the file is missing, empty, not a regular file or may not be read.
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

  // Time of the last change, in nanoseconds since 1970.
  std::int64_t changed_at() const { return changed_at_; }

  // The file's name without its directory, for error texts.
  const std::string& name() const { return name_; }

  // Reads bytes from `begin`, without touching the mapping and without reading ahead. Throws CheckpointError
  // if the file is too short or cannot be read.
  void read(std::size_t begin, std::span<std::byte> out) const;
  // Like read(), for callers that go on reading up to `end`: reads ahead if the bytes are not in memory. If
  // they are in the page cache, this takes half the time of touching the mapping, which must map and unmap
  // every page. Thread-safe.
  void copy(std::size_t begin, std::span<std::byte> out, std::size_t end) const;

  // From now on, touching a page reads only this page, none of its neighbours.
  void stop_reading_ahead();
  // Hints that bytes [range.begin, range.end) are needed soon: their pages are read in the background. Does
  // not throw.
  void will_need(Range range) const;

  // Hints that bytes [range.begin, range.end) are no longer needed: whole pages inside the range stop
  // counting as this process's memory. They stay readable, from the page cache or the disk. Does not throw.
  void advise_done(Range range) const;

 private:
  void read_waiting(std::size_t begin, std::span<std::byte> out) const;

  int descriptor_ = -1;
  std::span<const std::byte> bytes_;
  std::string name_;
  std::int64_t changed_at_ = 0;
  bool reads_ahead_ = true;
};

}  // namespace tp
