// The sum over ranks: through shared memory within a host, and by messages between one rank per host.
#pragma once

#include "parallel/exchange/exchange.h"
#include "parallel/exchange/host_memory.h"
#include "parallel/exchange/shared_window.h"
#include "parallel/exchange/wire_all_reduce.h"
#include "parallel/shard/sums.h"

#include <cstddef>
#include <cstdint>
#include <memory>
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
// sums of the other hosts over the wire, and leaves the result in its slot for the host's other ranks. Up to
// WireAllReduce::kInFlight pieces are in flight: while one is on the wire, the next is summed within the
// host, and the ranks copy out the one before. A slot has as many buffers. A rank refills a buffer once it
// has seen the sum of the old contents, and a host root once the others have gone on to a later piece.
class SharedMemoryAllReduce {
 public:
  // Collective over `comm`, to which `exchange` belongs; `wire` connects its host roots, and is null on other
  // ranks. Returns null if no two ranks share a host, or if a host has no shared memory, which `why` then
  // explains on every rank. Throws CommError.
  static std::unique_ptr<SharedMemoryAllReduce> create(MPI_Comm comm, const Patience& patience,
                                                       Exchange& exchange, WireAllReduce* wire,
                                                       std::string& why);

  // As AllReduce::operator(), for floats and doubles.
  template <class T>
  void operator()(std::span<const T> addend, const SumTarget& target);

  // The part of the host's shared memory that this rank reads most, and should have near.
  std::vector<std::span<const std::byte>> own_memory() const { return memory_->own(); }

 private:
  SharedMemoryAllReduce(const Patience& patience, Exchange& exchange, WireAllReduce* wire);

  // A rank's buffer of the piece at hand, as elements of T.
  template <class T>
  T* slot(std::size_t rank) const;
  std::byte* buffer(std::size_t rank, std::uint64_t piece) const;
  template <class T>
  void reduce_piece(std::span<const T> piece, const SumTarget& target);
  template <class T>
  void two_shot(std::size_t size, const SumTarget& target);
  template <class T>
  void sum_over_hosts(std::span<const T> addend, const SumTarget& target);
  template <class T>
  void give(std::span<const T> piece, std::uint64_t number, std::size_t whole);
  void take(std::uint64_t number, std::size_t size, const SumTarget& target);
  static void put(const float* sum, std::size_t size, const SumTarget& target);
  void announce(std::uint64_t phase);
  bool has_announced(std::size_t rank, std::uint64_t phase) const;
  void wait_for_host_root(std::uint64_t pieces) const;
  void wait_for_all(std::uint64_t phase) const;
  Wait::Ranks missing(std::uint64_t phase) const;
  template <class T>
  std::span<const T* const> addends_from(std::size_t begin) const;
  template <class T>
  const T** addends_of() const;

  const Patience& patience_;
  Exchange& exchange_;
  const Wait::Ranks& host_;  // the ranks of this one
  std::size_t rank_ = 0;     // on this host
  std::size_t size_ = 1;     // ranks of this host
  std::unique_ptr<HostMemory> memory_;
  std::unique_ptr<WindowSlot*[]> slots_;  // [ranks]
  // While a sum is computed: the places in every slot.
  std::unique_ptr<const float*[]> float_addends_;
  std::unique_ptr<const double*[]> double_addends_;
  std::uint64_t phase_ = 0;  // announcements made so far
  std::uint64_t pieces_ = 0;
  std::size_t piece_bytes_ = 0;  // bytes of the current piece
  WindowLayout layout_;
  WireAllReduce* wire_;            // on host roots, if there are several hosts
  std::vector<double> host_sums_;  // [buffers, a piece]: of this host, on its way
};

}  // namespace tp
