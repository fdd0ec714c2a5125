#pragma once

#include <filesystem>
#include <functional>

namespace tp {

// A file that this process has opened for reading and writing and locked, so no other process with a lock
// writes it at the same time. The lock ends with the object, or with the process. On file systems without
// locks, the file is only open.
class LockedFile {
 public:
  // Creates missing files and folders. If another process has the lock, calls `on_wait` and waits. Throws
  // DownloadError.
  LockedFile(const std::filesystem::path& path, const std::function<void()>& on_wait);
  ~LockedFile();
  LockedFile(const LockedFile&) = delete;
  LockedFile& operator=(const LockedFile&) = delete;

  int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

}  // namespace tp
