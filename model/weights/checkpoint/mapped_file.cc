#include "model/weights/checkpoint/mapped_file.h"

#include "tp/internal/require.h"

#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tp {
namespace {

std::string system_message(int error) { return std::generic_category().message(error); }

// Closes a file descriptor at the end of a scope; the mapping outlives it.
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  int value() const { return value_; }

 private:
  int value_;
};

Descriptor open_to_read(const std::filesystem::path& path) {
  // Without O_NONBLOCK, opening a named pipe would wait for its writer.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor >= 0) return Descriptor(descriptor);
  const int error = errno;
  if (error == ENOENT) {
    throw_error<CheckpointError>("{}: there is no such file; check the path and that the download finished",
                                 path.string());
  }
  throw_error<CheckpointError>("{}: the file cannot be opened ({}); check its permissions", path.string(),
                               system_message(error));
}

std::size_t size_of_file(const Descriptor& file, const std::filesystem::path& path) {
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
  return static_cast<std::size_t>(status.st_size);
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) : name_(path.filename().string()) {
  const Descriptor file = open_to_read(path);
  const std::size_t size = size_of_file(file, path);
  void* const address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.value(), 0);
  if (address == MAP_FAILED) {
    const int error = errno;
    throw_error<CheckpointError>(
        "{}: the file's {} bytes cannot be mapped into memory ({}); check `ulimit -v`", path.string(), size,
        system_message(error));
  }
  bytes_ = {static_cast<const std::byte*>(address), size};
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})), name_(std::move(other.name_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(name_, other.name_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::advise_done(Range range) const {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  // Pages that the range shares with its neighbours are left alone, but for the file's last one.
  const std::size_t first = (range.begin + page - 1) / page * page;
  const std::size_t last = range.end >= bytes_.size() ? bytes_.size() : range.end / page * page;
  if (first >= last) return;
  ::madvise(const_cast<std::byte*>(bytes_.data()) + first, last - first, MADV_DONTNEED);
}

}  // namespace tp
