// The fast path of all_reduce among ranks of one host: through shared memory instead of messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <mpi.h>

namespace tp {

// A window of shared memory (MPI-3) in which every rank has a slot for its addend, twice, for calls in turn.
//
// A call copies the addend to the own slot, announces it, waits until all ranks have announced theirs, and
// adds the slots up in the order of the ranks, so that the result has the same bits on every rank. While a
// rank still reads the slots of one call, others may already fill those of the next; the call after that
// finds all ranks done with the first, because they have announced the second. So there is one wait a call.
// Large messages go in pieces; where ranks are many and pieces large, each rank adds up its part of the piece
// and the others copy it.
//
// Waiting spins for a short while and then yields the processor, so that it works with more ranks than cores.
class SharedSum {
 public:
  // Collective over `comm`. Null if the ranks are not all on one host, or are one. Throws CommError.
  static std::unique_ptr<SharedSum> create(MPI_Comm comm);
  ~SharedSum();
  SharedSum(const SharedSum&) = delete;
  SharedSum& operator=(const SharedSum&) = delete;

  // Replaces `data` by the sum over ranks. Every rank gives as many floats.
  void all_reduce(std::span<float> data);

  // Whether it was faster than MPI_Allreduce for messages of this size when it was measured, the same on
  // every rank.
  bool is_worthwhile(std::size_t floats) const;

  // Measures both for sizes up to 4 MiB and remembers which is faster. Collective. Throws CommError.
  void measure();

 private:
  SharedSum(MPI_Comm comm, int rank, int size);

  struct Slot;
  void reduce_piece(std::span<float> piece);
  void announce(std::uint64_t phase);
  void wait_for_all(std::uint64_t phase) const;
  void add_up(std::span<float> out, std::size_t begin, std::size_t buffer) const;
  double seconds_of(std::span<float> data, bool shared);

  static constexpr std::size_t kSizeClasses = 23;  // powers of two of bytes

  MPI_Comm comm_;
  MPI_Win window_ = MPI_WIN_NULL;
  std::size_t rank_;
  std::size_t size_;
  std::unique_ptr<Slot*[]> slots_;  // [ranks]
  std::uint64_t phase_ = 0;         // announcements made so far
  std::uint64_t pieces_ = 0;
  bool worthwhile_[kSizeClasses] = {};
};

}  // namespace tp
