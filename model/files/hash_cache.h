// Remembers the hashes of large files in the user's cache folder.
#pragma once

#include "model/files/content_hash.h"

#include <filesystem>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace tp {

// One text file, $XDG_CACHE_HOME/tp-infer/file_hashes or ~/.cache/tp-infer/file_hashes, with one line per
// hashed file. Several processes may use it at the same time. Errors are ignored: a hash that cannot be read
// or written is computed again.
class HashCache {
 public:
  HashCache();
  // `file`: empty to remember nothing.
  explicit HashCache(std::filesystem::path file) : file_(std::move(file)) {}

  // The hashes of files with these statuses, if all of them are known.
  std::optional<std::vector<ContentHash>> find(std::span<const FileStatus> files) const;
  // Remembers the hash of a file. Does nothing if the file changed in the last two seconds: the clock of a
  // file system may be so coarse that the next change would leave the status as it is.
  void add(const FileStatus& status, const ContentHash& hash) const;

 private:
  std::filesystem::path file_;
};

}  // namespace tp
