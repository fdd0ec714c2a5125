// A file mapped into memory, to be read only.
#pragma once

#include "parallel/shard.h"

#include <cstddef>
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

  // The file's name without its directory, for error texts.
  const std::string& name() const { return name_; }

  // Says that bytes [range.begin, range.end) are not needed again: the whole pages inside the range no longer
  // count as this process's memory. They stay readable (from the page cache or the disk). Throws nothing; it
  // is only a hint.
  void advise_done(Range range) const;

 private:
  std::span<const std::byte> bytes_;
  std::string name_;
};

}  // namespace tp
