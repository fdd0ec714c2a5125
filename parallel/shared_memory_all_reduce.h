// The sum over ranks: through shared memory within a host, and by messages between one rank per host.
#pragma once

#include "parallel/exchange.h"
#include "parallel/host_memory.h"
#include "parallel/message_all_reduce.h"
#include "parallel/shared_window.h"
#include "parallel/sums.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <mpi.h>

namespace tp {

// Every rank has two slots for its addend in its host's shared memory, which successive calls use in turn.
//
// A call copies the addend into this rank's slot, announces it, waits until all ranks have announced theirs,
// and adds up the slots in rank order, so that the result has the same bits on every rank. While a rank still
// reads the slots of one call, others may already fill those of the next. By the call after that, every rank
// has announced the second and hence finished reading the first. So each call needs only one wait. Large
// messages are processed in pieces. With many ranks and large pieces, each rank adds up only its part of the
// piece, and the others copy the sum (two-shot).
//
// With several hosts, the lowest rank of each host is its host root. It adds up its host's slots, adds the
// sums of the other hosts by messages, and leaves the result in its slot for the host's other ranks: a second
// wait per call.
class SharedMemoryAllReduce {
 public:
  // Collective over `comm`, to which `exchange` belongs. Returns null if no two ranks share a host, or if a
  // host has no shared memory, which `why` then explains on every rank. Throws CommError.
  static std::unique_ptr<SharedMemoryAllReduce> create(MPI_Comm comm, const Patience& patience,
                                                       Exchange& exchange, std::string& why);
  ~SharedMemoryAllReduce();
  SharedMemoryAllReduce(const SharedMemoryAllReduce&) = delete;
  SharedMemoryAllReduce& operator=(const SharedMemoryAllReduce&) = delete;

  // As AllReduce::operator(), for floats and doubles.
  template <class T>
  void operator()(std::span<const T> addend, const SumTarget& target);

  // What this rank reads most of the host's shared memory, and should have near.
  std::vector<std::span<const std::byte>> own_memory() const { return memory_->own(); }

 private:
  SharedMemoryAllReduce(const Patience& patience, Exchange& exchange);

  // A rank's slot of the piece at hand, as elements of T.
  template <class T>
  T* slot(std::size_t rank) const;
  template <class T>
  void reduce_piece(std::span<const T> piece, const SumTarget& target);
  template <class T>
  void two_shot(std::size_t size, const SumTarget& target);
  template <class T>
  void sum_over_hosts(std::size_t size, const SumTarget& target);
  static void put(const float* sum, std::size_t size, const SumTarget& target);
  void announce(std::uint64_t phase);
  bool has_announced(std::size_t rank, std::uint64_t phase) const;
  void wait_for_host_root(std::uint64_t phase) const;
  void wait_for_all(std::uint64_t phase) const;
  Wait::Ranks missing(std::uint64_t phase) const;
  template <class T>
  std::span<const T* const> addends_from(std::size_t begin) const;

  const Patience& patience_;
  Exchange& exchange_;
  const Wait::Ranks& host_;  // the ranks of this one
  std::size_t rank_ = 0;     // on this host
  std::size_t size_ = 1;     // of this host
  std::unique_ptr<HostMemory> memory_;
  std::unique_ptr<WindowSlot*[]> slots_;  // [ranks]
  // While a sum is computed: the places in every slot.
  std::unique_ptr<const float*[]> float_addends_;
  std::unique_ptr<const double*[]> double_addends_;
  std::uint64_t phase_ = 0;  // announcements made so far
  std::uint64_t pieces_ = 0;
  std::size_t piece_bytes_ = 0;  // of the piece at hand

  // With several hosts only, and but for the first of them on host roots only.
  bool several_hosts_ = false;
  WindowLayout layout_;
  MPI_Comm host_roots_ = MPI_COMM_NULL;
  std::optional<Exchange> host_roots_exchange_;
  std::optional<MessageAllReduce> host_roots_all_reduce_;
};

}  // namespace tp
