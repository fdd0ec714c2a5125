#pragma once

#include "launch/hub/checksum.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tp {

// A file of a repository on the Hub, as its listing describes it.
struct HubFile {
  std::string path;  // within the repository; is_safe_path
  std::uint64_t size = 0;
  ChecksumKind kind = ChecksumKind::git_blob;
  std::string checksum{};  // hexadecimal, lower case
};

// A repository at one commit.
struct HubListing {
  std::string commit;  // 40 hexadecimal digits
  std::vector<HubFile> files{};

  // Returns nullptr if no file has this path.
  const HubFile* find(const std::string& path) const {
    for (const HubFile& file : files)
      if (file.path == path) return &file;
    return nullptr;
  }
};

}  // namespace tp
