// A file mapped into memory, to be read only.
#pragma once

#include "parallel/shard/shard.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace tp {

// The whole of a regular file as bytes. Pages are read from disk when they are first touched. The file must
// not be made shorter while it is mapped: touching a page that is gone ends the process (SIGBUS).
class MappedFile {
 public:
  // Throws CheckpointError if the file is missing, empty, not a regular file or may not be read.
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

  // When it was changed last, in nanoseconds since 1970.
  std::int64_t changed_at() const { return changed_at_; }

  // The file's name without its directory, for error texts.
  const std::string& name() const { return name_; }

  // Reads bytes from `begin` on without touching the mapping; nothing is read ahead of them where a page of
  // them is not in memory. Throws CheckpointError if the file ends before or cannot be read.
  void read(std::size_t begin, std::span<std::byte> out) const;
  // The same for those who read on, up to `end`: what is not in memory is read ahead for them. From the page
  // cache this takes half the time of touching the mapping, whose every page has to be mapped and unmapped.
  // Several threads may.
  void copy(std::size_t begin, std::span<std::byte> out, std::size_t end) const;

  // From now on touching a page brings in this page alone, not others around it.
  void stop_reading_ahead();
  // Says that bytes [range.begin, range.end) are needed soon: their pages are read while the caller goes on.
  // Throws nothing; it is only a hint.
  void will_need(Range range) const;

  // Says that bytes [range.begin, range.end) are not needed again: the whole pages inside the range no longer
  // count as this process's memory. They stay readable (from the page cache or the disk). Throws nothing; it
  // is only a hint.
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
