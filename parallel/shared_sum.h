// The fast path of all_reduce: through shared memory among the ranks of a host, and one rank of each host
// talks to other hosts.
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
// With several hosts, the first rank of each, its leader, adds up its host's slots, exchanges the sum with
// the other leaders by MPI_Allreduce, and the host's other ranks copy it from the leader's slot: a second
// wait a call.
//
// Waiting spins for a short while and then yields the processor, so that it works with more ranks than cores.
class SharedSum {
 public:
  // Collective over `comm`. Null if no two ranks share a host. Ranks that give different `group`s are taken
  // to be on different hosts, whatever MPI says. Throws CommError.
  static std::unique_ptr<SharedSum> create(MPI_Comm comm, int group = 0);
  ~SharedSum();
  SharedSum(const SharedSum&) = delete;
  SharedSum& operator=(const SharedSum&) = delete;

  // Replaces `data` by the sum over ranks, or, with `onto` given, adds the sum to the floats there and leaves
  // `data` alone. Every rank gives as many floats.
  void all_reduce(std::span<float> data, float* onto = nullptr);

  // Whether it was faster than MPI_Allreduce for messages of this size when it was measured, the same on
  // every rank.
  bool is_worthwhile(std::size_t floats) const;

  // Measures both for sizes up to 4 MiB and remembers which is faster; what is larger goes the same way as
  // those. Collective. Throws CommError.
  void measure();

 private:
  SharedSum(MPI_Comm comm, MPI_Comm host, MPI_Comm leaders);

  struct Slot;
  // Where a sum goes: it replaces the floats there, or is added to them.
  struct Target {
    float* floats;
    bool adds;
  };
  void reduce_piece(std::span<const float> piece, const Target& target);
  void share_work(std::size_t size, std::size_t buffer, const Target& target);
  void sum_over_hosts(std::size_t size, std::size_t buffer, const Target& target);
  static void put(const float* sum, std::size_t size, const Target& target);
  void announce(std::uint64_t phase);
  void wait_for(std::size_t rank, std::uint64_t phase) const;
  void wait_for_all(std::uint64_t phase) const;
  void add_up(std::size_t begin, std::size_t size, std::size_t buffer, const Target& target);
  double seconds_of(std::span<float> data, bool shared);

  static constexpr std::size_t kSizeClasses = 23;  // powers of two of bytes

  MPI_Comm comm_;
  MPI_Comm host_;     // the ranks of this host
  MPI_Comm leaders_;  // the first rank of every host; null on other ranks and with a single host
  MPI_Win window_ = MPI_WIN_NULL;
  std::size_t rank_ = 0;  // on this host
  std::size_t size_ = 1;  // of this host
  bool several_hosts_ = false;
  std::unique_ptr<Slot*[]> slots_;           // [ranks]
  std::unique_ptr<const float*[]> addends_;  // while add_up runs: in every slot, and of the target
  std::uint64_t phase_ = 0;                  // announcements made so far
  std::uint64_t pieces_ = 0;
  bool worthwhile_[kSizeClasses] = {};
};

}  // namespace tp
