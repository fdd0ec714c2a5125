#include "launch/hub/locked_file.h"

#include "launch/hub/download_error.h"
#include "model/files/regular_file.h"
#include "tp/internal/require.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tp {
namespace {

int open_file(const std::filesystem::path& path) {
  std::error_code ignored;  // the open call reports errors
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), ignored);
  RegularFile file(path, O_RDWR | O_CREAT, 0666);
  require<DownloadError>(
      file.is_open(),
      "cannot write {}: expected a folder for the download, found: {}; check its permissions, or "
      "choose another one with --to or HF_HUB_CACHE",
      path.string(), file.error());
  return file.release();
}

void lock(int descriptor, const std::function<void()>& on_wait) {
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  on_wait();
  while (::flock(descriptor, LOCK_EX) != 0 && errno == EINTR) continue;
}

// The previous owner of the lock may have renamed or removed the file.
bool is_still_there(int descriptor, const std::filesystem::path& path) {
  struct stat opened {};
  struct stat named {};
  return ::fstat(descriptor, &opened) == 0 && ::stat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

}  // namespace

LockedFile::LockedFile(const std::filesystem::path& path, const std::function<void()>& on_wait) {
  for (;;) {
    descriptor_ = open_file(path);
    lock(descriptor_, on_wait);
    if (is_still_there(descriptor_, path)) return;
    ::close(descriptor_);
  }
}

LockedFile::~LockedFile() { ::close(descriptor_); }

}  // namespace tp
