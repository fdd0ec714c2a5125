#include "launch/hub/partial_file.h"

#include "launch/hub/download_error.h"
#include "tp/internal/require.h"

#include <cerrno>
#include <cstring>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

namespace tp {

PartialFile::PartialFile(const std::filesystem::path& path, const HubFile& file,
                         const std::function<void()>& on_wait)
    : path_(path), file_(file), lock_(path, on_wait), checksum_(file.kind, file.size) {
  struct stat status {};
  require_written(::fstat(lock_.descriptor(), &status) == 0);
  if (static_cast<std::uint64_t>(status.st_size) > file.size) {
    restart();
  } else {
    read_existing();
  }
}

void PartialFile::read_existing() {
  std::vector<char> buffer(1 << 20);
  for (;;) {
    const ssize_t count =
        ::pread(lock_.descriptor(), buffer.data(), buffer.size(), static_cast<off_t>(size_));
    require_written(count >= 0);
    if (count == 0) return;
    checksum_.add({buffer.data(), static_cast<std::size_t>(count)});
    size_ += static_cast<std::uint64_t>(count);
  }
}

void PartialFile::append(std::string_view bytes) {
  checksum_.add(bytes);
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(lock_.descriptor(), bytes.data(), bytes.size(), static_cast<off_t>(size_));
    if (count < 0 && errno == EINTR) continue;
    require_written(count > 0);
    bytes.remove_prefix(static_cast<std::size_t>(count));
    size_ += static_cast<std::uint64_t>(count);
  }
}

void PartialFile::restart() {
  require_written(::ftruncate(lock_.descriptor(), 0) == 0);
  size_ = 0;
  checksum_ = Checksum(file_.kind, file_.size);
}

bool PartialFile::is_valid() { return checksum_.finish() == file_.checksum; }

void PartialFile::move_to(const std::filesystem::path& path) {
  // Sync before the rename, so that after a power failure no empty file has the final name.
  require_written(::fdatasync(lock_.descriptor()) == 0);
  require_written(::rename(path_.c_str(), path.c_str()) == 0);
}

void PartialFile::remove() { ::unlink(path_.c_str()); }

void PartialFile::require_written(bool condition) const {
  if (condition) return;
  throw_error<DownloadError>(
      "cannot write {}: expected {} bytes to be written, found: {}; free some space, or choose another "
      "folder with --to or HF_HUB_CACHE (downloaded parts are kept)",
      path_.string(), file_.size, std::strerror(errno));
}

}  // namespace tp
