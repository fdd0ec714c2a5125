#include "parallel/shared_sum.h"

#include "parallel/mpi_call.h"
#include "parallel/stopwatch.h"
#include "parallel/sums.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <new>
#include <vector>

#include <sched.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tp {
namespace {

// 256 KiB: larger pieces leave the second-level cache before the other ranks have read them.
constexpr std::size_t kPieceFloats = 64 * 1024;

// From here on, and with this many ranks, each rank adds up a part only: less to read, but a second wait.
constexpr std::size_t kSharedWorkFloats = 8 * 1024;
constexpr std::size_t kSharedWorkRanks = 3;

// About as long as an exchange takes; who waits longer waits for a rank that has no processor.
constexpr int kSpins = 4000;

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

}  // namespace

struct SharedSum::Slot {
  alignas(64) std::atomic<std::uint64_t> announced;
  alignas(64) float buffers[2][kPieceFloats];
};

std::unique_ptr<SharedSum> SharedSum::create(MPI_Comm comm, int group) {
  int rank = 0;
  int size = 1;
  TP_MPI(MPI_Comm_rank(comm, &rank));
  TP_MPI(MPI_Comm_size(comm, &size));
  MPI_Comm machine = MPI_COMM_NULL;
  MPI_Comm host = MPI_COMM_NULL;
  TP_MPI(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &machine));
  TP_MPI(MPI_Comm_split(machine, group, rank, &host));
  TP_MPI(MPI_Comm_free(&machine));
  int host_rank = 0;
  int host_size = 1;
  TP_MPI(MPI_Comm_rank(host, &host_rank));
  TP_MPI(MPI_Comm_size(host, &host_size));
  int largest = 1;
  TP_MPI(MPI_Allreduce(&host_size, &largest, 1, MPI_INT, MPI_MAX, comm));
  if (largest == 1) {
    TP_MPI(MPI_Comm_free(&host));
    return nullptr;
  }
  MPI_Comm leaders = MPI_COMM_NULL;
  TP_MPI(MPI_Comm_split(comm, host_rank == 0 && largest != size ? 0 : MPI_UNDEFINED, rank, &leaders));
  auto sum = std::unique_ptr<SharedSum>(new SharedSum(comm, host, leaders));
  sum->several_hosts_ = largest != size;
  return sum;
}

SharedSum::SharedSum(MPI_Comm comm, MPI_Comm host, MPI_Comm leaders)
    : comm_(comm), host_(host), leaders_(leaders) {
  int rank = 0;
  int size = 1;
  TP_MPI(MPI_Comm_rank(host, &rank));
  TP_MPI(MPI_Comm_size(host, &size));
  rank_ = static_cast<std::size_t>(rank);
  size_ = static_cast<std::size_t>(size);
  slots_ = std::make_unique<Slot*[]>(size_);
  addends_ = std::make_unique<const float*[]>(size_ + 1);
  void* own = nullptr;
  TP_MPI(MPI_Win_allocate_shared(sizeof(Slot) + alignof(Slot), 1, MPI_INFO_NULL, host, &own, &window_));
  for (int other = 0; other < size; ++other) {
    MPI_Aint bytes = 0;
    int unit = 1;
    void* base = nullptr;
    TP_MPI(MPI_Win_shared_query(window_, other, &bytes, &unit, &base));
    const auto address = reinterpret_cast<std::uintptr_t>(base);
    slots_[static_cast<std::size_t>(other)] =
        reinterpret_cast<Slot*>((address + alignof(Slot) - 1) / alignof(Slot) * alignof(Slot));
  }
  new (&slots_[rank_]->announced) std::atomic<std::uint64_t>(0);
  TP_MPI(MPI_Barrier(comm));
}

SharedSum::~SharedSum() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized != 0) return;
  if (window_ != MPI_WIN_NULL) MPI_Win_free(&window_);
  if (leaders_ != MPI_COMM_NULL) MPI_Comm_free(&leaders_);
  if (host_ != MPI_COMM_NULL) MPI_Comm_free(&host_);
}

void SharedSum::all_reduce(std::span<float> data, float* onto) {
  const Target target{onto != nullptr ? onto : data.data(), onto != nullptr};
  for (std::size_t begin = 0; begin < data.size(); begin += kPieceFloats) {
    reduce_piece(data.subspan(begin, std::min(kPieceFloats, data.size() - begin)),
                 {target.floats + begin, target.adds});
  }
}

void SharedSum::reduce_piece(std::span<const float> piece, const Target& target) {
  const std::size_t buffer = pieces_++ % 2;
  std::memcpy(slots_[rank_]->buffers[buffer], piece.data(), piece.size_bytes());
  announce(++phase_);
  if (several_hosts_) return sum_over_hosts(piece.size(), buffer, target);
  wait_for_all(phase_);
  if (size_ < kSharedWorkRanks || piece.size() < kSharedWorkFloats) {
    return add_up(0, piece.size(), buffer, target);
  }
  share_work(piece.size(), buffer, target);
}

void SharedSum::share_work(std::size_t size, std::size_t buffer, const Target& target) {
  // Only this rank reads this part of the slots, so its own slot can take the sum.
  const auto part_of = [&](std::size_t rank) { return size * rank / size_; };
  const std::size_t begin = part_of(rank_);
  add_up(begin, part_of(rank_ + 1) - begin, buffer, {slots_[rank_]->buffers[buffer] + begin, false});
  announce(++phase_);
  wait_for_all(phase_);
  for (std::size_t rank = 0; rank < size_; ++rank) {
    put(slots_[rank]->buffers[buffer] + part_of(rank), part_of(rank + 1) - part_of(rank),
        {target.floats + part_of(rank), target.adds});
  }
}

void SharedSum::sum_over_hosts(std::size_t size, std::size_t buffer, const Target& target) {
  constexpr std::size_t kLeader = 0;
  float* shared = slots_[kLeader]->buffers[buffer];
  if (rank_ != kLeader) {
    wait_for(kLeader, ++phase_);
    return put(shared, size, target);
  }
  wait_for_all(phase_);
  add_up(0, size, buffer, {shared, false});
  TP_MPI(MPI_Allreduce(MPI_IN_PLACE, shared, static_cast<int>(size), MPI_FLOAT, MPI_SUM, leaders_));
  announce(++phase_);
  put(shared, size, target);
}

void SharedSum::put(const float* sum, std::size_t size, const Target& target) {
  const float* const addends[] = {sum, target.floats};
  if (target.adds) return sum_of(addends, size, target.floats);
  std::memcpy(target.floats, sum, size * sizeof(float));
}

// The sum of elements [begin, begin + size) of all slots, in the order of the ranks.
void SharedSum::add_up(std::size_t begin, std::size_t size, std::size_t buffer, const Target& target) {
  for (std::size_t rank = 0; rank < size_; ++rank) addends_[rank] = slots_[rank]->buffers[buffer] + begin;
  addends_[size_] = target.floats;
  sum_of({addends_.get(), size_ + (target.adds ? 1 : 0)}, size, target.floats);
}

void SharedSum::announce(std::uint64_t phase) {
  slots_[rank_]->announced.store(phase, std::memory_order_release);
}

void SharedSum::wait_for(std::size_t rank, std::uint64_t phase) const {
  const std::atomic<std::uint64_t>& announced = slots_[rank]->announced;
  for (int spins = 0; announced.load(std::memory_order_acquire) < phase; ++spins) {
    if (spins < kSpins) {
      pause();
    } else {
      sched_yield();
    }
  }
}

void SharedSum::wait_for_all(std::uint64_t phase) const {
  for (std::size_t rank = 0; rank < size_; ++rank) wait_for(rank, phase);
}

bool SharedSum::is_worthwhile(std::size_t floats) const {
  const auto size_class = static_cast<std::size_t>(std::bit_width(floats * sizeof(float)));
  return worthwhile_[std::min(size_class, kSizeClasses - 1)];
}

void SharedSum::measure() {
  constexpr std::size_t kSmallest = 6;  // 32 bytes
  for (std::size_t size_class = kSmallest; size_class < kSizeClasses; ++size_class) {
    // In the middle of the class: bit_width of [2^(c-1), 2^c) bytes is c.
    std::vector<float> data((std::size_t{3} << (size_class - 2)) / sizeof(float));
    double times[2] = {seconds_of(data, false), seconds_of(data, true)};
    double slowest[2] = {};
    TP_MPI(MPI_Allreduce(times, slowest, 2, MPI_DOUBLE, MPI_MAX, comm_));
    worthwhile_[size_class] = slowest[1] < slowest[0];
  }
  std::fill(worthwhile_, worthwhile_ + kSmallest, worthwhile_[kSmallest]);
}

// The fastest of a few calls, so that a rank that was interrupted does not decide. As blocks call it: the sum
// is added to something.
double SharedSum::seconds_of(std::span<float> data, bool shared) {
  constexpr int kTries = 5;
  std::vector<float> onto(data.size());
  double best = 1e9;
  for (int i = 0; i < kTries; ++i) {
    TP_MPI(MPI_Barrier(comm_));
    const Stopwatch watch;
    if (shared) {
      all_reduce(data, onto.data());
    } else {
      TP_MPI(
          MPI_Allreduce(MPI_IN_PLACE, data.data(), static_cast<int>(data.size()), MPI_FLOAT, MPI_SUM, comm_));
      const float* const addends[] = {data.data(), onto.data()};
      sum_of(addends, data.size(), onto.data());
    }
    best = std::min(best, watch.seconds());
  }
  return best;
}

}  // namespace tp
