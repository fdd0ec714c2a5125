// A file mapped into memory for reading.
#pragma once

#include "parallel/shard/shard.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace tp {

// Distinguishes a file and the state of its contents from all others.
struct FileStatus {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t size = 0;
  // Nanoseconds since 1970: the last change of the contents, which programs can set to any time; and the last
  // change of contents, name or rights, which they cannot.
  std::int64_t modified = 0;
  std::int64_t changed = 0;

  bool operator==(const FileStatus&) const = default;
};

// All bytes of a regular file. Pages are read from disk when they are first touched. The file must not be
// truncated while it is mapped: touching a missing page ends the process (SIGBUS). Sources of weights own
// files by shared_ptr, so that rows can stay mapped after loading (MappedRows).
class MappedFile : public std::enable_shared_from_this<MappedFile> {
 public:
  // Throws CheckpointError if the file is missing, empty, not a regular file or may not be read.
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

  // The status when the file was opened, and now. If it cannot be read, for example because the file was
  // removed on another host, it is empty.
  const FileStatus& opened() const { return opened_; }
  FileStatus status() const;
  // Throws CheckpointError if the contents have changed since the file was opened.
  void require_unchanged() const;

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
  // Like stop_reading_ahead, for bytes [range.begin, range.end). Does not throw.
  void expect_random_reads(Range range) const;
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
  FileStatus opened_;
  bool reads_ahead_ = true;
};

}  // namespace tp
