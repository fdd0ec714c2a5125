#include "model/files/regular_file.h"

#include <cerrno>
#include <system_error>
#include <utility>

#include <unistd.h>

namespace tp {

RegularFile::RegularFile(const std::filesystem::path& path, int flags, mode_t mode)
    : descriptor_(::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK, mode)) {
  if (descriptor_ < 0 || ::fstat(descriptor_, &status_) != 0)
    error_ = std::generic_category().message(errno);
  else if (!S_ISREG(status_.st_mode))
    error_ = "it is not a regular file";
  if (!error_.empty() && descriptor_ >= 0) ::close(release());
}

RegularFile::~RegularFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool RegularFile::is_own() const { return status_.st_uid == ::geteuid(); }

int RegularFile::release() { return std::exchange(descriptor_, -1); }

ssize_t RegularFile::read(void* out, std::size_t size) const {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t count = ::read(descriptor_, static_cast<char*>(out) + done, size - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return -1;
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  return static_cast<ssize_t>(done);
}

// Files in /proc have no size.
std::string RegularFile::text() const {
  constexpr std::size_t kPiece = 64 << 10;
  std::string text;
  for (ssize_t count = 1; is_open() && count > 0;) {
    const std::size_t before = text.size();
    text.resize(before + kPiece);
    count = read(text.data() + before, kPiece);
    text.resize(before + static_cast<std::size_t>(count > 0 ? count : 0));
  }
  return text;
}

}  // namespace tp
