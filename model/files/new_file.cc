#include "model/files/new_file.h"

#include "tp/internal/require.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

namespace tp {

NewFile::NewFile(const std::filesystem::path& path) : path_(path), unfinished_(path) {
  unfinished_ += ".unfinished";
  descriptor_ = ::open(unfinished_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  require<Error>(descriptor_ >= 0,
                 "cannot write {}: expected a folder in which files can be created, found: {}; give another "
                 "`output`",
                 path_.string(), std::strerror(errno));
  // Some network file systems have no locks. There, another writer goes unnoticed.
  const bool is_locked = ::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (is_locked) ::close(descriptor_);
  require<Error>(
      !is_locked,
      "cannot write {}: another process is writing it; wait until it has finished, or give another `output`",
      path_.string());
}

NewFile::~NewFile() {
  if (descriptor_ < 0) return;
  ::unlink(unfinished_.c_str());
  ::close(descriptor_);
}

void NewFile::reserve(std::uint64_t size) {
  size_ = size;
  const auto length = static_cast<off_t>(size);
  require_done(::ftruncate(descriptor_, 0) == 0);
  const bool is_reserved = ::fallocate(descriptor_, 0, 0, length) == 0;
  require_done(is_reserved || errno == EOPNOTSUPP || errno == ENOSYS);
  if (!is_reserved) require_done(::ftruncate(descriptor_, length) == 0);
}

void NewFile::write(std::uint64_t begin, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(begin));
    if (count < 0 && errno == EINTR) continue;
    require_done(count > 0);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    begin += static_cast<std::uint64_t>(count);
  }
}

// Synchronizes before renaming: after a power failure, the named file must not be empty.
void NewFile::finish() {
  require_done(::fdatasync(descriptor_) == 0);
  require_done(::rename(unfinished_.c_str(), path_.c_str()) == 0);
  const int descriptor = descriptor_;
  descriptor_ = -1;
  require_done(::close(descriptor) == 0);
}

void NewFile::require_done(bool condition) const {
  if (condition) return;
  throw_error<Error>(
      "cannot write {}: expected room for {} bytes on its disk, found: {}; free some space, or give an "
      "`output` elsewhere",
      path_.string(), size_, std::strerror(errno));
}

}  // namespace tp
