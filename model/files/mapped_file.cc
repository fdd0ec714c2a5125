#include "model/files/mapped_file.h"

#include "model/files/has_file.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

namespace tp {
namespace {

std::size_t page_size() {
  static const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

std::string system_message(int error) { return std::generic_category().message(error); }

// Bytes that a thread requests at once: several times what a disk delivers before it answers the next
// request, yet less than a part of a matrix.
constexpr std::size_t kReadAhead = std::size_t{8} << 20;

// The range that a thread has requested and may not have read yet.
struct AskedFor {
  const MappedFile* file = nullptr;
  Range range;
};

// Closes a file descriptor at the end of a scope, unless it is released.
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  int value() const { return value_; }
  int release() { return std::exchange(value_, -1); }

 private:
  int value_;
};

// Lets the kernel read ahead again at the end of a scope.
struct ReadsAheadAgain {
  int descriptor;
  ~ReadsAheadAgain() { ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_NORMAL); }
};

Descriptor open_to_read(const std::filesystem::path& path) {
  // Without O_NONBLOCK, opening a named pipe would wait for its writer.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor >= 0) return Descriptor(descriptor);
  const int error = errno;
  if (error == ENOENT) {
    has_file(path);  // throws for a link without its target
    throw_error<CheckpointError>("{}: no such file; check the path and that the download finished",
                                 path.string());
  }
  throw_error<CheckpointError>("{}: the file cannot be opened ({}); check its permissions", path.string(),
                               system_message(error));
}

// The status of a regular file that is not empty.
struct stat status_of(const Descriptor& file, const std::filesystem::path& path) {
  struct stat status {};
  if (::fstat(file.value(), &status) != 0) {
    const int error = errno;
    throw_error<CheckpointError>("{}: the file's size cannot be read ({})", path.string(),
                                 system_message(error));
  }
  if (S_ISDIR(status.st_mode)) {
    throw_error<CheckpointError>("{}: expected a file, found a directory; give the file's path",
                                 path.string());
  }
  if (!S_ISREG(status.st_mode)) {
    throw_error<CheckpointError>(
        "{}: expected a regular file, found a device, pipe or socket; copy its data to a file",
        path.string());
  }
  if (status.st_size <= 0) {
    throw_error<CheckpointError>("{}: the file is empty; download it again", path.string());
  }
  return status;
}

std::int64_t nanoseconds(const timespec& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

FileStatus file_status(const struct stat& status) {
  return {.device = status.st_dev,
          .inode = status.st_ino,
          .size = static_cast<std::uint64_t>(status.st_size),
          .modified = nanoseconds(status.st_mtim),
          .changed = nanoseconds(status.st_ctim)};
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) : name_(path.filename().string()) {
  Descriptor file = open_to_read(path);
  const struct stat status = status_of(file, path);
  const auto size = static_cast<std::size_t>(status.st_size);
  opened_ = file_status(status);
  void* const address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.value(), 0);
  if (address == MAP_FAILED) {
    const int error = errno;
    throw_error<CheckpointError>(
        "{}: the file's {} bytes cannot be mapped into memory ({}); check `ulimit -v`", path.string(), size,
        system_message(error));
  }
  bytes_ = {static_cast<const std::byte*>(address), size};
  descriptor_ = file.release();
}

MappedFile::~MappedFile() {
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  ::close(descriptor_);
}

FileStatus MappedFile::status() const {
  struct stat status {};
  return ::fstat(descriptor_, &status) == 0 ? file_status(status) : FileStatus{};
}

// Ignores the time of the last change of name or rights, because somebody may replace the file by another
// one.
void MappedFile::require_unchanged() const {
  const FileStatus now = status();
  require<CheckpointError>(
      now.size == opened_.size && now.modified == opened_.modified,
      "{}: the file has changed since it was opened; do not change a model while it is loaded", name_);
}

void MappedFile::read(std::size_t begin, std::span<std::byte> out) const {
  will_need({begin, begin + out.size()});
  if (!reads_ahead_) return read_waiting(begin, out);
  ::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_RANDOM);
  const ReadsAheadAgain at_the_end{descriptor_};
  read_waiting(begin, out);
}

void MappedFile::copy(std::size_t begin, std::span<std::byte> out, std::size_t end) const {
  if (end <= begin + out.size()) return read_waiting(begin, out);
  iovec memory{out.data(), out.size()};
  const ssize_t count = ::preadv2(descriptor_, &memory, 1, static_cast<off_t>(begin), RWF_NOWAIT);
  const std::size_t found = count < 0 ? 0 : static_cast<std::size_t>(count);
  if (found == out.size()) return;
  // Some bytes are not in memory, or the file system cannot tell.
  thread_local AskedFor asked;
  if (asked.file != this || !asked.range.contains(begin)) asked = {this, {begin, begin}};
  if (begin + kReadAhead / 2 >= asked.range.end) {
    const Range more{asked.range.end, std::min(end, begin + kReadAhead)};
    if (more.begin < more.end) will_need(more);
    asked.range = {begin, std::max(more.begin, more.end)};
  }
  read_waiting(begin + found, out.subspan(found));
}

void MappedFile::read_waiting(std::size_t begin, std::span<std::byte> out) const {
  int error = 0;
  while (!out.empty()) {
    const ssize_t count = ::pread(descriptor_, out.data(), out.size(), static_cast<off_t>(begin));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      error = count < 0 ? errno : ENODATA;
      break;
    }
    begin += static_cast<std::size_t>(count);
    out = out.subspan(static_cast<std::size_t>(count));
  }
  require<CheckpointError>(error != ENODATA,
                           "{}: the file ends at byte {}, where it had {} when it was opened; do not change "
                           "a model while it is loaded",
                           name_, begin, bytes_.size());
  require<CheckpointError>(error == 0, "{}: the {} bytes from {} on cannot be read ({}); check the disk",
                           name_, out.size(), begin, system_message(error));
}

void MappedFile::stop_reading_ahead() {
  reads_ahead_ = false;
  ::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_RANDOM);
  ::madvise(const_cast<std::byte*>(bytes_.data()), bytes_.size(), MADV_RANDOM);
}

void MappedFile::expect_random_reads(Range range) const {
  const std::size_t end = std::min(range.end, bytes_.size());
  const std::size_t begin = range.begin / page_size() * page_size();
  if (begin < end) ::madvise(const_cast<std::byte*>(bytes_.data()) + begin, end - begin, MADV_RANDOM);
}

void MappedFile::will_need(Range range) const {
  // The kernel reads only the beginning of a longer range, usually 128 KiB (its limit for reading ahead).
  constexpr std::size_t kHint = std::size_t{128} << 10;
  const std::size_t end = std::min(range.end, bytes_.size());
  for (std::size_t begin = range.begin / page_size() * page_size(); begin < end; begin += kHint) {
    auto* const address = const_cast<std::byte*>(bytes_.data()) + begin;
    ::madvise(address, std::min(kHint, end - begin), MADV_WILLNEED);
  }
}

void MappedFile::advise_done(Range range) const {
  const std::size_t page = page_size();
  // Keeps pages that the range shares with its neighbours, except the file's last page.
  const std::size_t first = (range.begin + page - 1) / page * page;
  const std::size_t last = range.end >= bytes_.size() ? bytes_.size() : range.end / page * page;
  if (first >= last) return;
  ::madvise(const_cast<std::byte*>(bytes_.data()) + first, last - first, MADV_DONTNEED);
}

}  // namespace tp
