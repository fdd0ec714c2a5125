#pragma once

#include <filesystem>
#include <functional>

namespace tp {

// A file that this process has opened for reading and writing and locked, so that no other process that does
// the same writes it at the same time. The lock ends with the object, or with the process however it ends. On
// file systems without locks it is only open.
class LockedFile {
 public:
  // Creates the file and its folders if they are not there. If another process has the lock, calls `on_wait`
  // and waits. Throws DownloadError.
  LockedFile(const std::filesystem::path& path, const std::function<void()>& on_wait);
  ~LockedFile();
  LockedFile(const LockedFile&) = delete;
  LockedFile& operator=(const LockedFile&) = delete;

  int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

}  // namespace tp
