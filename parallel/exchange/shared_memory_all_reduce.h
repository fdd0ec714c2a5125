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

// Every rank has a slot in its host's shared memory, with two buffers for its addend. Calls alternate between
// the buffers.
//
// A call copies the addend into this rank's slot, announces it, and waits until all ranks have announced
// their addends. Then it adds up the addends in rank order, so that the result has the same bits on every
// rank. While a rank is still reading the buffers of one call, other ranks may already fill the buffers for
// the next call. A third call reuses the buffers of the first. By then, every rank has announced its addend
// for the second call, so it has finished reading the buffers of the first. Therefore, each call needs only
// one wait. A large addend is split into pieces, each of which is processed like a separate call. If a piece
// is large enough and there are enough ranks, each rank sums only one part of the piece, and the other ranks
// copy the part's sum (two-shot).
//
// With several hosts, the lowest rank of each host is the host root. It adds up its host's addends, exchanges
// the sum with the other host roots over the wire, and leaves the total in its slot for the host's other
// ranks. Up to WireAllReduce::kInFlight pieces are in flight: while one piece is on the wire, the next is
// summed within the host, and the ranks copy out the previous one. A slot has one buffer per piece in flight.
// A rank reuses a buffer once it has seen the total for the piece that the buffer held. A host root reuses a
// buffer once the other ranks have moved on to a later piece.
class SharedMemoryAllReduce {
 public:
  // Collective over `comm`, the communicator of `exchange`. `wire` connects the host roots and is null on
  // other ranks. Returns null if no two ranks share a host. Also returns null if a host cannot create shared
  // memory; `why` then contains the reason on every rank. Throws CommError.
  static std::unique_ptr<SharedMemoryAllReduce> create(MPI_Comm comm, const Patience& patience,
                                                       Exchange& exchange, WireAllReduce* wire,
                                                       std::string& why);

  // Like AllReduce::operator(), for floats and doubles.
  template <class T>
  void operator()(std::span<const T> addend, const SumTarget& target);

  // The parts of the host's shared memory whose main reader is this rank. They should be on this rank's NUMA
  // node.
  std::vector<std::span<const std::byte>> own_memory() const { return memory_->own(); }

 private:
  SharedMemoryAllReduce(const Patience& patience, Exchange& exchange, WireAllReduce* wire);

  // A rank's buffer for the current piece, as elements of T.
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
  const Wait::Ranks& host_;  // ranks on this host
  std::size_t rank_ = 0;     // index on this host
  std::size_t size_ = 1;     // number of ranks on this host
  std::unique_ptr<HostMemory> memory_;
  std::unique_ptr<WindowSlot*[]> slots_;  // [ranks]
  // [ranks]; the current piece's addends.
  std::unique_ptr<const float*[]> float_addends_;
  std::unique_ptr<const double*[]> double_addends_;
  std::uint64_t phase_ = 0;  // announcements so far, if there is only one host
  std::uint64_t pieces_ = 0;
  std::size_t piece_bytes_ = 0;  // bytes of the current piece
  WindowLayout layout_;
  WireAllReduce* wire_;            // null unless this is one of several host roots
  std::vector<double> host_sums_;  // [buffers, piece]; this host's sums in flight
};

}  // namespace tp
