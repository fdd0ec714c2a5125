#include "parallel/exchange/host_memory.h"

#include "parallel/exchange/mpi_call.h"

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

namespace tp {
namespace {

struct Name {
  char text[64] = "";
};

// Creates a shared memory object of `bytes` bytes with a unique name. On failure, returns -1 and sets errno.
int create_object(std::size_t bytes, Name& name) {
  int object = -1;
  // The name may already exist: containers that share /dev/shm may use the same process ids.
  for (int attempt = 0; attempt < 1000 && object < 0; ++attempt) {
    *fmt::format_to_n(name.text, sizeof(name.text) - 1, "/tp-infer-{}-{}", ::getpid(), attempt).out = '\0';
    object = ::shm_open(name.text, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (object < 0 && errno != EEXIST) break;
  }
  if (object >= 0 && ::ftruncate(object, static_cast<off_t>(bytes)) != 0) {
    const int error = errno;
    ::close(object);
    ::shm_unlink(name.text);
    errno = error;
    return -1;
  }
  if (object < 0) name = {};
  return object;
}

// Allocates pages on the NUMA node where this thread runs. Returns 0 or an errno value.
int allocate(int object, std::size_t begin, std::size_t bytes) {
  int error = 0;
  do {
    error = ::posix_fallocate(object, static_cast<off_t>(begin), static_cast<off_t>(bytes));
  } while (error == EINTR);
  return error;
}

// Whether this rank sees what the first rank writes to `begin`; true if `begin` is null (no memory). The
// result can be false if two hosts share a host name: their ranks may then open different shared-memory
// objects of the same name. Collective.
bool sees_the_first_rank(MPI_Comm host, int rank, std::byte* begin) {
  std::uint64_t mark = 0;
  if (rank == 0) {
    mark = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()) * 4096 +
           static_cast<std::uint64_t>(::getpid());
    if (begin != nullptr) std::memcpy(begin, &mark, sizeof(mark));
  }
  TP_MPI(MPI_Bcast(&mark, 1, MPI_UINT64_T, 0, host));
  std::uint64_t seen = mark;
  if (begin != nullptr) std::memcpy(&seen, begin, sizeof(seen));
  TP_MPI(MPI_Barrier(host));
  if (rank == 0 && begin != nullptr) std::memset(begin, 0, sizeof(mark));
  return seen == mark;
}

}  // namespace

std::vector<PageRun> pages_read_by(std::size_t rank, std::size_t ranks, std::size_t share, std::size_t page,
                                   const HostMemory::Reader& reader) {
  std::vector<PageRun> runs;
  for (std::size_t begin = 0; begin < share * ranks; begin += page) {
    if (reader(begin / share, begin % share + page / 2) != rank) continue;
    if (!runs.empty() && runs.back().begin + runs.back().bytes == begin)
      runs.back().bytes += page;
    else
      runs.push_back({begin, page});
  }
  return runs;
}

std::unique_ptr<HostMemory> HostMemory::create(MPI_Comm host, std::size_t bytes_of_rank, const Reader& reader,
                                               std::string& why) {
  int rank = 0;
  int size = 1;
  TP_MPI(MPI_Comm_rank(host, &rank));
  TP_MPI(MPI_Comm_size(host, &size));
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t share = (bytes_of_rank + page - 1) / page * page;
  const std::size_t whole = share * static_cast<std::size_t>(size);

  Name name;
  int object = rank == 0 ? create_object(whole, name) : -1;
  int error = rank == 0 && object < 0 ? errno : 0;
  TP_MPI(MPI_Bcast(&name, sizeof(name), MPI_BYTE, 0, host));
  const bool exists = name.text[0] != '\0';
  if (exists && rank != 0) object = ::shm_open(name.text, O_RDWR, 0);
  if (exists && object < 0) error = errno;
  const std::vector<PageRun> own =
      pages_read_by(static_cast<std::size_t>(rank), static_cast<std::size_t>(size), share, page, reader);
  for (const PageRun& run : own) {
    if (object >= 0 && error == 0) error = allocate(object, run.begin, run.bytes);
  }
  void* begin = MAP_FAILED;
  if (object >= 0 && error == 0) {
    begin = ::mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_SHARED, object, 0);
    if (begin == MAP_FAILED) error = errno;
  }
  if (object >= 0) ::close(object);
  const bool is_shared =
      sees_the_first_rank(host, rank, begin == MAP_FAILED ? nullptr : static_cast<std::byte*>(begin));
  if (exists && rank == 0) ::shm_unlink(name.text);
  if (!is_shared)
    why = "a rank does not see what the first one of its host writes; do several hosts have one name?";
  if (error != 0)
    why = fmt::format("no {} KiB of /dev/shm for each rank: {}", share >> 10, std::strerror(error));
  if (begin == MAP_FAILED) return nullptr;
  auto memory = std::unique_ptr<HostMemory>(
      new HostMemory(static_cast<std::byte*>(begin), share, static_cast<std::size_t>(size)));
  for (const PageRun& run : own) {
    memory->own_.emplace_back(memory->begin_ + run.begin, run.bytes);
    // Linux reports a page's node only to processes that have touched the page.
    for (std::size_t offset = 0; offset < run.bytes; offset += page)
      static_cast<void>(*const_cast<const volatile std::byte*>(memory->begin_ + run.begin + offset));
  }
  return memory;
}

HostMemory::~HostMemory() { ::munmap(begin_, bytes_of_rank_ * ranks_); }

}  // namespace tp
