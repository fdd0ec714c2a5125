#include "parallel/shared_memory_all_reduce.h"

#include "parallel/agreement.h"
#include "parallel/mpi_call.h"
#include "parallel/sums.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <type_traits>

namespace tp {
namespace {

constexpr std::size_t kPieceBytes = WindowSlot::kPieceBytes;
// Sums may overwrite addends in a slot.
static_assert(kPieceBytes / sizeof(float) <= kSerialSum);

constexpr std::size_t kHostRoot = 0;

constexpr Wait::Manner kManner{.collective = "an all-reduce"};

}  // namespace

std::unique_ptr<SharedMemoryAllReduce> SharedMemoryAllReduce::create(MPI_Comm comm, const Patience& patience,
                                                                     Exchange& exchange, std::string& why) {
  const Placement& placement = patience.placement;
  if (placement.hosts.size() == placement.size()) return nullptr;
  auto sum = std::unique_ptr<SharedMemoryAllReduce>(new SharedMemoryAllReduce(patience, exchange));
  const auto rank = static_cast<int>(placement.rank);
  MPI_Comm host = MPI_COMM_NULL;
  TP_MPI(MPI_Comm_split(comm, static_cast<int>(placement.host_of[placement.rank]), rank, &host));
  const WindowLayout& layout = sum->layout_;
  const auto reader = [&](std::size_t slot, std::size_t offset) { return layout.reader(slot, offset); };
  sum->memory_ = HostMemory::create(host, sizeof(WindowSlot), reader, why);
  TP_MPI(MPI_Comm_free(&host));
  const std::optional<RankError> error = first_error(exchange, why);
  if (error) {
    why = error->text;
    return nullptr;
  }
  for (std::size_t other = 0; other < sum->size_; ++other)
    sum->slots_[other] = reinterpret_cast<WindowSlot*>(sum->memory_->of_rank(other));
  new (&sum->slots_[sum->rank_]->announced) std::atomic<std::uint64_t>(0);
  exchange.all_values(0, kManner);  // nobody announces before all are ready
  if (!sum->several_hosts_) return sum;
  TP_MPI(MPI_Comm_split(comm, sum->rank_ == 0 ? 0 : MPI_UNDEFINED, rank, &sum->host_roots_));
  if (sum->rank_ != 0) return sum;
  sum->host_roots_exchange_.emplace(sum->host_roots_, patience, placement.hosts);
  sum->host_roots_all_reduce_.emplace(*sum->host_roots_exchange_);
  return sum;
}

SharedMemoryAllReduce::SharedMemoryAllReduce(const Patience& patience, Exchange& exchange)
    : patience_(patience),
      exchange_(exchange),
      host_(patience.placement.own_host()),
      size_(host_.size()),
      slots_(std::make_unique<WindowSlot*[]>(size_)),
      float_addends_(std::make_unique<const float*[]>(size_)),
      double_addends_(std::make_unique<const double*[]>(size_)),
      several_hosts_(patience.placement.hosts.size() > 1),
      layout_{size_, several_hosts_} {
  rank_ = static_cast<std::size_t>(std::ranges::find(host_, patience.placement.rank) - host_.begin());
}

SharedMemoryAllReduce::~SharedMemoryAllReduce() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  // While an exception is on its way the other host roots may be anywhere.
  if (finalized == 0 && host_roots_ != MPI_COMM_NULL && std::uncaught_exceptions() == 0)
    MPI_Comm_free(&host_roots_);
}

template <class T>
void SharedMemoryAllReduce::operator()(std::span<const T> addend, const SumTarget& target) {
  constexpr std::size_t kPiece = kPieceBytes / sizeof(T);
  for (std::size_t begin = 0; begin < addend.size(); begin += kPiece)
    reduce_piece(addend.subspan(begin, std::min(kPiece, addend.size() - begin)), target.from(begin));
}

template void SharedMemoryAllReduce::operator()(std::span<const float> addend, const SumTarget& target);
template void SharedMemoryAllReduce::operator()(std::span<const double> addend, const SumTarget& target);

template <class T>
T* SharedMemoryAllReduce::slot(std::size_t rank) const {
  return reinterpret_cast<T*>(slots_[rank]->buffers[pieces_ % 2] + layout_.place(rank, piece_bytes_));
}

template <class T>
void SharedMemoryAllReduce::reduce_piece(std::span<const T> piece, const SumTarget& target) {
  ++pieces_;
  piece_bytes_ = piece.size_bytes();
  std::memcpy(slot<T>(rank_), piece.data(), piece.size_bytes());
  announce(++phase_);
  if (several_hosts_) return sum_over_hosts<T>(piece.size(), target);
  wait_for_all(phase_);
  if (!layout_.is_two_shot(piece_bytes_)) return sum_to(addends_from<T>(0), piece.size(), target);
  two_shot<T>(piece.size(), target);
}

template <class T>
void SharedMemoryAllReduce::two_shot(std::size_t size, const SumTarget& target) {
  const auto part_of = [&](std::size_t rank) { return size * rank / size_; };
  const auto sum_of_part = [&](std::size_t rank) {
    return reinterpret_cast<float*>(slot<T>(rank) + part_of(rank));
  };
  // Only this rank reads this part of the slots, so its own slot can take the sum.
  const std::size_t begin = part_of(rank_);
  sum_to(addends_from<T>(begin), part_of(rank_ + 1) - begin, {sum_of_part(rank_), false});
  announce(++phase_);
  wait_for_all(phase_);
  for (std::size_t rank = 0; rank < size_; ++rank)
    put(sum_of_part(rank), part_of(rank + 1) - part_of(rank), target.from(part_of(rank)));
}

template <class T>
void SharedMemoryAllReduce::sum_over_hosts(std::size_t size, const SumTarget& target) {
  float* const shared = slot<float>(kHostRoot);
  if (rank_ != kHostRoot) {
    wait_for_host_root(++phase_);
    return put(shared, size, target);
  }
  wait_for_all(phase_);
  sum_of(addends_from<T>(0), size, slot<T>(kHostRoot));
  (*host_roots_all_reduce_)(std::span<const T>(slot<T>(kHostRoot), size), {shared, false});
  announce(++phase_);
  put(shared, size, target);
}

void SharedMemoryAllReduce::put(const float* sum, std::size_t size, const SumTarget& target) {
  sum_to(std::span(&sum, 1), size, target);
}

// Element `begin` of all slots, in the order of the ranks.
template <class T>
std::span<const T* const> SharedMemoryAllReduce::addends_from(std::size_t begin) const {
  const T** addends = nullptr;
  if constexpr (std::is_same_v<T, float>)
    addends = float_addends_.get();
  else
    addends = double_addends_.get();
  for (std::size_t rank = 0; rank < size_; ++rank) addends[rank] = slot<T>(rank) + begin;
  return {addends, size_};
}

void SharedMemoryAllReduce::announce(std::uint64_t phase) {
  slots_[rank_]->announced.store(phase, std::memory_order_release);
}

bool SharedMemoryAllReduce::has_announced(std::size_t rank, std::uint64_t phase) const {
  return slots_[rank]->announced.load(std::memory_order_acquire) >= phase;
}

// It waits for other host roots in turn, and speaks of them if need be.
void SharedMemoryAllReduce::wait_for_host_root(std::uint64_t phase) const {
  const auto here = [&] { return has_announced(kHostRoot, phase); };
  if (here()) return;
  Wait wait(patience_, kManner, host_, [] { return Wait::Ranks(); });
  while (!here()) {
    exchange_.progress();
    wait.turn();
  }
}

void SharedMemoryAllReduce::wait_for_all(std::uint64_t phase) const {
  std::size_t here = 0;
  const auto all_here = [&] {
    while (here < size_ && has_announced(here, phase)) ++here;
    return here == size_;
  };
  if (all_here()) return;
  Wait wait(patience_, kManner, host_, [this, phase] { return missing(phase); });
  while (!all_here()) {
    exchange_.progress();
    wait.turn();
  }
}

Wait::Ranks SharedMemoryAllReduce::missing(std::uint64_t phase) const {
  Wait::Ranks ranks;
  for (std::size_t rank = 0; rank < size_; ++rank) {
    if (!has_announced(rank, phase)) ranks.push_back(host_[rank]);
  }
  return ranks;
}

}  // namespace tp
