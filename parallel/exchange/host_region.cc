#include "parallel/exchange/host_region.h"

#include "parallel/exchange/agreement.h"
#include "parallel/exchange/exchange.h"
#include "parallel/exchange/mpi_call.h"
#include "parallel/exchange/placement.h"
#include "parallel/exchange/tracer.h"
#include "parallel/exchange/wait.h"
#include "parallel/machine/stopwatch.h"
#include "tp/mpi.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <optional>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tp {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr Wait::Manner kShared{.collective = "an exchange within the host"};

// A file descriptor that is closed at the end of its life; -1: none.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number() const { return number_; }

 private:
  int number_;
};

// A communicator of some ranks, for the creation of a region.
class Group {
 public:
  Group(MPI_Comm parent, std::span<const std::size_t> ranks) {
    constexpr int kTag = 1;
    const std::vector<int> numbers(ranks.begin(), ranks.end());
    MPI_Group all = MPI_GROUP_NULL;
    MPI_Group some = MPI_GROUP_NULL;
    TP_MPI(MPI_Comm_group(parent, &all));
    TP_MPI(MPI_Group_incl(all, static_cast<int>(numbers.size()), numbers.data(), &some));
    TP_MPI(MPI_Comm_create_group(parent, some, kTag, &comm_));
    MPI_Group_free(&some);
    MPI_Group_free(&all);
  }
  ~Group() { MPI_Comm_free(&comm_); }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  template <class T>
  T from_first(T value) const {
    TP_MPI(MPI_Bcast(&value, sizeof(value), MPI_BYTE, 0, comm_));
    return value;
  }
  void wait() const { TP_MPI(MPI_Barrier(comm_)); }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

// A memfd of this many bytes, without pages; -1 on failure.
int create_file(std::size_t bytes) {
  const int file = ::memfd_create("tp-infer", MFD_CLOEXEC);
  if (file >= 0 && ::ftruncate(file, static_cast<off_t>(bytes)) != 0) {
    const int error = errno;
    ::close(file);
    errno = error;
    return -1;
  }
  return file;
}

}  // namespace

struct HostRegion::Counter {
  static constexpr std::size_t kCacheLine = 64;
  alignas(kCacheLine) std::atomic<std::uint64_t> calls;
  std::uint64_t mark;  // the first rank's, to check that the other ranks see it
};

HostRegion::HostRegion(Communicator& comm, std::span<const std::size_t> host, std::size_t bytes)
    : comm_(comm), host_(host.begin(), host.end()), bytes_(bytes) {
  rank_ = static_cast<std::size_t>(std::ranges::find(host_, comm.rank()) - host_.begin());
}

// The other ranks open the first rank's descriptor through /proc, which needs no name in a file system.
std::unique_ptr<HostRegion> HostRegion::create(Communicator& comm, std::span<const std::size_t> host,
                                               std::size_t bytes, std::string& why) {
  struct Opened {
    int process = 0;
    int file = -1;
    int error = 0;
  };
  const Group group(comm.handle(), host);
  auto region = std::unique_ptr<HostRegion>(new HostRegion(comm, host, bytes));
  const bool is_first = region->rank_ == 0;
  const Descriptor own(is_first ? create_file(kHugePage + bytes) : -1);
  const Opened first = group.from_first(Opened{::getpid(), own.number(), own.number() < 0 ? errno : 0});
  if (first.file < 0) {
    why =
        fmt::format("cannot create a memfd of {} KiB: {}", (bytes + 1023) >> 10, std::strerror(first.error));
    return nullptr;
  }
  std::string error = region->map(first.process, first.file);
  const std::uint64_t mark =
      group.from_first(static_cast<std::uint64_t>(first.process) << 32 ^
                       static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(region->mapped_)));
  if (is_first && region->mapped_ != nullptr) region->counter(0).mark = mark;
  group.wait();
  // A process in another container may have the first rank's number.
  if (error.empty() && region->counter(0).mark != mark)
    error = "a rank does not see what the first rank of its host writes; do ranks run in several containers?";
  group.wait();  // the first rank keeps its descriptor until all ranks have opened it
  if (error.empty()) return region;
  why = std::move(error);
  return nullptr;
}

// Maps the file of a process, at a huge page. Returns the error, if any.
std::string HostRegion::map(int process, int descriptor) {
  const std::string path = fmt::format("/proc/{}/fd/{}", process, descriptor);
  const Descriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (file.number() < 0) return fmt::format("cannot open {}: {}", path, std::strerror(errno));
  const std::size_t whole = kHugePage + bytes_;
  // In another container, the number may belong to another process, whose file may be shorter.
  struct stat found {};
  if (::fstat(file.number(), &found) != 0 || static_cast<std::size_t>(found.st_size) != whole)
    return fmt::format("{} is another file; do ranks run in several containers?", path);
  void* const space =
      ::mmap(nullptr, whole + kHugePage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (space == MAP_FAILED) return fmt::format("no {} MiB of address space", whole >> 20);
  auto* const begin = static_cast<std::byte*>(space);
  const std::size_t gap = (kHugePage - reinterpret_cast<std::uintptr_t>(begin) % kHugePage) % kHugePage;
  std::byte* const place = begin + gap;
  if (gap > 0) ::munmap(begin, gap);
  // Whole pages, which may have 16 or 64 KiB.
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  if (gap < kHugePage) ::munmap(place + (whole + page - 1) / page * page, kHugePage - gap);
  if (::mmap(place, whole, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file.number(),
             0) == MAP_FAILED) {
    const int error = errno;
    ::munmap(place, whole);
    return fmt::format("cannot map a memfd of {} KiB: {}", (bytes_ + 1023) >> 10, std::strerror(error));
  }
  ::madvise(place, whole, MADV_HUGEPAGE);  // if the system allows huge pages in shared memory
  mapped_ = place;
  return {};
}

void HostRegion::use_huge_pages(const std::byte* begin, std::size_t bytes) {
#ifdef MADV_COLLAPSE
  constexpr int kCollapse = MADV_COLLAPSE;
#else
  constexpr int kCollapse = 25;  // since Linux 6.1
#endif
  if (bytes == 0) return;
  const auto first = static_cast<std::size_t>(begin - data()) / kHugePage;
  const auto last = (static_cast<std::size_t>(begin - data()) + bytes - 1) / kHugePage;
  is_huge_.resize(bytes_ / kHugePage);  // the last page may be cut short
  for (std::size_t page = first; page <= last && page < is_huge_.size(); ++page) {
    if (is_huge_[page]) continue;
    is_huge_[page] = true;
    ::madvise(data() + page * kHugePage, kHugePage, kCollapse);  // small pages do, too
  }
}

bool HostRegion::can_share(Communicator& comm, std::string& why) {
  constexpr std::size_t kSmall = 4096;
  create(comm, comm.placement().own_host(), kSmall, why);
  const std::optional<RankError> error = first_error(comm.exchange(), why);
  if (error) why = error->text;
  return !error;
}

HostRegion::~HostRegion() {
  if (mapped_ != nullptr) ::munmap(mapped_, kHugePage + bytes_);
}

std::byte* HostRegion::data() const { return mapped_ + kHugePage; }

HostRegion::Counter& HostRegion::counter(std::size_t rank) const {
  return reinterpret_cast<Counter*>(mapped_)[rank];
}

bool HostRegion::has_called(std::size_t rank) const {
  return counter(rank).calls.load(std::memory_order_acquire) >= calls_;
}

void HostRegion::synchronize() {
  const Stopwatch watch;
  const TraceSpan span(comm_, Activity::exchange, 0);
  ++calls_;
  counter(rank_).calls.store(calls_, std::memory_order_release);
  wait();
  comm_.stats().exchange += CommCounter{1, 0, watch.seconds()};
}

void HostRegion::wait() {
  std::size_t here = 0;
  const auto all_here = [&] {
    while (here < host_.size() && has_called(here)) ++here;
    return here == host_.size();
  };
  if (all_here()) return;
  Wait wait(comm_.patience(), kShared, host_, [&] {
    Wait::Ranks missing;
    for (std::size_t rank = 0; rank < host_.size(); ++rank) {
      if (!has_called(rank)) missing.push_back(host_[rank]);
    }
    return missing;
  });
  while (!all_here()) {
    // While half-batches overlap, only the communication thread calls MPI.
    if (!comm_.overlaps()) comm_.exchange().progress();
    wait.turn();
  }
}

}  // namespace tp
