#include "parallel/exchange/shared_memory_all_reduce.h"

#include "parallel/exchange/agreement.h"
#include "parallel/exchange/mpi_call.h"
#include "parallel/shard/sums.h"

#include <algorithm>
#include <new>
#include <type_traits>

namespace tp {
namespace {

constexpr std::size_t kPieceBytes = WindowSlot::kPieceBytes;
static_assert(kPieceBytes == WireAllReduce::kPieceBytes);
// Parts are small enough that sum_to may write a part's sum over the addends.
static_assert(kPieceBytes / sizeof(double) / WindowLayout::kTwoShotRanks < kSerialSum);

constexpr std::size_t kHostRoot = 0;

constexpr Wait::Manner kManner{.collective = "an all-reduce"};

}  // namespace

std::unique_ptr<SharedMemoryAllReduce> SharedMemoryAllReduce::create(MPI_Comm comm, const Patience& patience,
                                                                     Exchange& exchange, WireAllReduce* wire,
                                                                     std::string& why) {
  const Placement& placement = patience.placement;
  if (placement.hosts.size() == placement.size()) return nullptr;
  auto sum = std::unique_ptr<SharedMemoryAllReduce>(new SharedMemoryAllReduce(patience, exchange, wire));
  const auto rank = static_cast<int>(placement.rank);
  MPI_Comm host = MPI_COMM_NULL;
  TP_MPI(MPI_Comm_split(comm, static_cast<int>(placement.host_of[placement.rank]), rank, &host));
  const WindowLayout& layout = sum->layout_;
  const auto reader = [&](std::size_t slot, std::size_t offset) { return layout.reader(slot, offset); };
  sum->memory_ = HostMemory::create(host, layout.slot_bytes(), reader, why);
  TP_MPI(MPI_Comm_free(&host));
  const std::optional<RankError> error = first_error(exchange, why);
  if (error) {
    why = error->text;
    return nullptr;
  }
  for (std::size_t other = 0; other < sum->size_; ++other)
    sum->slots_[other] = reinterpret_cast<WindowSlot*>(sum->memory_->of_rank(other));
  new (sum->slots_[sum->rank_]) WindowSlot{};
  exchange.all_values(0, kManner);  // no rank may announce an addend before all slots are ready
  return sum;
}

SharedMemoryAllReduce::SharedMemoryAllReduce(const Patience& patience, Exchange& exchange,
                                             WireAllReduce* wire)
    : patience_(patience),
      exchange_(exchange),
      host_(patience.placement.own_host()),
      size_(host_.size()),
      slots_(std::make_unique<WindowSlot*[]>(size_)),
      float_addends_(std::make_unique<const float*[]>(size_)),
      double_addends_(std::make_unique<const double*[]>(size_)),
      layout_{size_, patience.placement.hosts.size() > 1},
      wire_(wire) {
  rank_ = static_cast<std::size_t>(std::ranges::find(host_, patience.placement.rank) - host_.begin());
  if (wire_ != nullptr) host_sums_.resize(layout_.buffers() * kPieceBytes / sizeof(double));
}

template <class T>
void SharedMemoryAllReduce::operator()(std::span<const T> addend, const SumTarget& target) {
  if (layout_.several_hosts) return sum_over_hosts(addend, target);
  constexpr std::size_t kPiece = kPieceBytes / sizeof(T);
  for (std::size_t begin = 0; begin < addend.size(); begin += kPiece)
    reduce_piece(addend.subspan(begin, std::min(kPiece, addend.size() - begin)), target.from(begin));
}

template void SharedMemoryAllReduce::operator()(std::span<const float> addend, const SumTarget& target);
template void SharedMemoryAllReduce::operator()(std::span<const double> addend, const SumTarget& target);

template <class T>
T* SharedMemoryAllReduce::slot(std::size_t rank) const {
  return reinterpret_cast<T*>(buffer(rank, pieces_) + layout_.place(rank, piece_bytes_));
}

std::byte* SharedMemoryAllReduce::buffer(std::size_t rank, std::uint64_t piece) const {
  return slots_[rank]->buffer(piece % layout_.buffers());
}

template <class T>
void SharedMemoryAllReduce::reduce_piece(std::span<const T> piece, const SumTarget& target) {
  ++pieces_;
  piece_bytes_ = piece.size_bytes();
  copy(piece.data(), piece.size(), slot<T>(rank_));
  announce(++phase_);
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
  // Only this rank reads this part of the addends, so the sum can overwrite this part of its own addend.
  const std::size_t begin = part_of(rank_);
  sum_to(addends_from<T>(begin), part_of(rank_ + 1) - begin, {sum_of_part(rank_), false});
  announce(++phase_);
  wait_for_all(phase_);
  for (std::size_t rank = 0; rank < size_; ++rank)
    put(sum_of_part(rank), part_of(rank + 1) - part_of(rank), target.from(part_of(rank)));
}

template <class T>
void SharedMemoryAllReduce::sum_over_hosts(std::span<const T> addend, const SumTarget& target) {
  if (size_ == 1) return (*wire_)(addend, target);
  constexpr std::size_t kPiece = kPieceBytes / sizeof(T);
  constexpr std::size_t kLag = WireAllReduce::kInFlight - 1;
  const std::size_t pieces = (addend.size() + kPiece - 1) / kPiece;
  const auto part_of = [&](std::size_t piece) {
    return addend.subspan(piece * kPiece, std::min(kPiece, addend.size() - piece * kPiece));
  };
  for (std::size_t turn = 0; turn < pieces + kLag; ++turn) {
    if (turn < pieces) give(part_of(turn), pieces_ + turn, addend.size_bytes());
    if (turn < kLag || turn - kLag >= pieces) continue;
    const std::size_t done = turn - kLag;
    take(pieces_ + done, part_of(done).size(), target.from(done * kPiece));
  }
  pieces_ += pieces;
}

template <class T>
void SharedMemoryAllReduce::give(std::span<const T> piece, std::uint64_t number, std::size_t whole) {
  if (wire_ == nullptr) {
    copy(piece.data(), piece.size(), reinterpret_cast<T*>(buffer(rank_, number)));
    return announce(number + 1);
  }
  announce(number + 1);
  wait_for_all(number + 1);
  piece_bytes_ = piece.size_bytes();
  const T** const addends = addends_of<T>();
  addends[kHostRoot] = piece.data();
  for (std::size_t rank = 1; rank < size_; ++rank)
    addends[rank] = reinterpret_cast<const T*>(buffer(rank, number));
  T* const sum = reinterpret_cast<T*>(reinterpret_cast<std::byte*>(host_sums_.data()) +
                                      number % layout_.buffers() * kPieceBytes);
  sum_of(std::span<const T* const>(addends, size_), piece.size(), sum);
  wire_->begin(std::span<const T>(sum, piece.size()),
               {reinterpret_cast<float*>(buffer(kHostRoot, number)), false}, whole);
}

void SharedMemoryAllReduce::take(std::uint64_t number, std::size_t size, const SumTarget& target) {
  if (wire_ != nullptr) {
    wire_->finish();
    slots_[kHostRoot]->summed.store(number + 1, std::memory_order_release);
  } else {
    wait_for_host_root(number + 1);
  }
  put(reinterpret_cast<const float*>(buffer(kHostRoot, number)), size, target);
}

void SharedMemoryAllReduce::put(const float* sum, std::size_t size, const SumTarget& target) {
  sum_to(std::span(&sum, 1), size, target);
}

// The address of element `begin` of each addend, in rank order.
template <class T>
std::span<const T* const> SharedMemoryAllReduce::addends_from(std::size_t begin) const {
  const T** const addends = addends_of<T>();
  for (std::size_t rank = 0; rank < size_; ++rank) addends[rank] = slot<T>(rank) + begin;
  return {addends, size_};
}

template <class T>
const T** SharedMemoryAllReduce::addends_of() const {
  if constexpr (std::is_same_v<T, float>)
    return float_addends_.get();
  else
    return double_addends_.get();
}

void SharedMemoryAllReduce::announce(std::uint64_t phase) {
  slots_[rank_]->announced.store(phase, std::memory_order_release);
}

bool SharedMemoryAllReduce::has_announced(std::size_t rank, std::uint64_t phase) const {
  return slots_[rank]->announced.load(std::memory_order_acquire) >= phase;
}

// `missing` returns no ranks: the host root itself reports long waits for other host roots.
void SharedMemoryAllReduce::wait_for_host_root(std::uint64_t pieces) const {
  const auto here = [&] { return slots_[kHostRoot]->summed.load(std::memory_order_acquire) >= pieces; };
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
    if (wire_ != nullptr) wire_->progress();
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
