// The sum over ranks through shared memory among the ranks of a host, and one rank of each host talks to
// other hosts.
#pragma once

#include "parallel/exchange.h"
#include "parallel/host_memory.h"
#include "parallel/message_all_reduce.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <mpi.h>

namespace tp {

// Every rank has a slot for its addend in memory that its host shares, twice, for calls in turn.
//
// A call copies the addend to the own slot, announces it, waits until all ranks have announced theirs, and
// adds the slots up in the order of the ranks, so that the result has the same bits on every rank. While a
// rank still reads the slots of one call, others may already fill those of the next; the call after that
// finds all ranks done with the first, because they have announced the second. So there is one wait a call.
// Large messages go in pieces; where ranks are many and pieces large, each rank adds up its part of the piece
// and the others copy it.
//
// With several hosts, the first rank of each, its host root, adds up its host's slots, the host roots add up
// the sums of their hosts by messages, and the host's other ranks copy the sum from the host root's slot: a
// second wait a call.
class SharedMemoryAllReduce {
 public:
  // Collective over `comm`, to which `exchange` belongs. Null if no two ranks share a host, or if a host has
  // no memory to share, and then `why` says so on every rank. Throws CommError.
  static std::unique_ptr<SharedMemoryAllReduce> create(MPI_Comm comm, const Patience& patience,
                                                       Exchange& exchange, std::string& why);
  ~SharedMemoryAllReduce();
  SharedMemoryAllReduce(const SharedMemoryAllReduce&) = delete;
  SharedMemoryAllReduce& operator=(const SharedMemoryAllReduce&) = delete;

  // As AllReduce::operator().
  void operator()(std::span<float> data, float* onto = nullptr);

 private:
  SharedMemoryAllReduce(const Patience& patience, Exchange& exchange);

  struct Slot;
  // Where a sum goes: it replaces the floats there, or is added to them.
  struct Target {
    float* floats;
    bool adds;
  };
  void reduce_piece(std::span<const float> piece, const Target& target);
  void two_shot(std::size_t size, std::size_t buffer, const Target& target);
  void sum_over_hosts(std::size_t size, std::size_t buffer, const Target& target);
  static void put(const float* sum, std::size_t size, const Target& target);
  void announce(std::uint64_t phase);
  bool has_announced(std::size_t rank, std::uint64_t phase) const;
  void wait_for_host_root(std::uint64_t phase) const;
  void wait_for_all(std::uint64_t phase) const;
  Wait::Ranks missing(std::uint64_t phase) const;
  void add_up(std::size_t begin, std::size_t size, std::size_t buffer, const Target& target);

  const Patience& patience_;
  Exchange& exchange_;
  const Wait::Ranks& host_;  // the ranks of this one
  std::size_t rank_ = 0;     // on this host
  std::size_t size_ = 1;     // of this host
  std::unique_ptr<HostMemory> memory_;
  std::unique_ptr<Slot*[]> slots_;           // [ranks]
  std::unique_ptr<const float*[]> addends_;  // while add_up runs: in every slot, and of the target
  std::uint64_t phase_ = 0;                  // announcements made so far
  std::uint64_t pieces_ = 0;

  // With several hosts only, and but for the first of them on host roots only.
  bool several_hosts_ = false;
  MPI_Comm host_roots_ = MPI_COMM_NULL;
  std::optional<Exchange> host_roots_exchange_;
  std::optional<MessageAllReduce> host_roots_all_reduce_;
};

}  // namespace tp
