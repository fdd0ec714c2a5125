// A group of MPI ranks: a whole job or one of its pipeline stages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tp {

// This rank's calls to one kind of collective.
struct CommCounter {
  std::size_t calls = 0;
  std::size_t bytes = 0;  // this rank's payload, not network traffic
  double seconds = 0.0;   // time inside the calls, including waiting for other ranks

  CommCounter& operator+=(const CommCounter& other) {
    calls += other.calls;
    bytes += other.bytes;
    seconds += other.seconds;
    return *this;
  }
};

struct CommStats {
  CommCounter all_reduce;
  // The part of all_reduce between hosts, with the bytes that this rank sent. With two half-batches,
  // wire.seconds is the duration of the transfers, and all_reduce.seconds contains only the time that the
  // rank waited for them.
  CommCounter wire;
  CommCounter gather;
  CommCounter exchange;  // small all-to-all exchanges while ranks choose tokens
  CommCounter broadcast;
  std::uint64_t inexact_sums = 0;  // all-reduces of doubles whose values may be too large to add exactly
  // Duration of each all-reduce since the last comparison across ranks; see waiting_seconds() in
  // parallel/exchange/collectives.h.
  std::vector<float> all_reduce_seconds;
  double waiting_seconds = 0.0;  // time this rank waited in all-reduces that were compared
};

// Handling of ranks that are late for a collective because they are stopped, swapping or reading from a slow
// disk.
struct WaitOptions {
  // Called on one of the waiting ranks, once per wait of more than `patience` seconds, possibly on a thread
  // of the library. Example: "waited 10 s in an all-reduce for rank 1 (process 4711 on node3)".
  std::function<void(const std::string& text)> on_long_wait;
  double patience = 10.0;
  // Seconds after which a wait throws CommError; 0: never. A wait for rank 0 to start a step times out only
  // if rank 0's process is stopped.
  double timeout = 0.0;
};

struct MpiHandle;  // tp/mpi.h
class AllReduce;   // parallel/exchange/all_reduce.h
class Exchange;    // parallel/exchange/exchange.h
class Overlap;     // parallel/exchange/overlap.h
struct Patience;   // parallel/exchange/wait.h
struct Placement;  // parallel/exchange/placement.h
class Tracer;      // parallel/exchange/tracer.h

// Duplicates an MPI communicator to keep the library's messages apart from the program's messages. MPI must
// stay initialized as long as this object exists. Failed calls throw CommError. Not thread-safe.
class Communicator {
 public:
  // Collective over `parent`. To pass an MPI_Comm, include tp/mpi.h. Throws CommError.
  explicit Communicator(const MpiHandle& parent, WaitOptions waits = {});
  // A subgroup of `parent` that consists of `ranks`, in this order, with the parent's wait options and trace.
  // Collective over `ranks`, which must all pass the same list. Throws CommError.
  Communicator(const Communicator& parent, std::span<const std::size_t> ranks);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  std::size_t rank() const { return rank_; }
  std::size_t size() const { return size_; }
  bool is_root() const { return rank_ == 0; }
  // This rank's index among the ranks on its host, and the number of ranks on that host.
  std::size_t local_rank() const { return local_rank_; }
  std::size_t local_size() const { return local_size_; }

  // The hosts and processes of this group, for messages. Ranks are numbered as in the whole job.
  const Placement& placement() const { return *placement_; }

  const Patience& patience() const { return *patience_; }

  // The duplicated communicator.
  const MpiHandle& handle() const { return *handle_; }
  // Waits for background sums to complete. Throws CommError if a background sum failed.
  Exchange& exchange();
  AllReduce& sums() { return *sums_; }
  // Runs sums in the background. The first call starts the communication thread.
  Overlap& overlap();
  // Whether two computations currently alternate while their sums run in the background.
  bool overlaps() const;
  // Why all-reduces don't use shared memory although several ranks share a host. Empty if they use shared
  // memory.
  const std::string& not_shared_because() const;
  CommStats& stats() { return stats_; }
  const CommStats& stats() const { return stats_; }
  Tracer& tracer() { return *tracer_; }

 private:
  Communicator(std::unique_ptr<MpiHandle> handle, std::unique_ptr<Placement> placement, WaitOptions waits,
               std::shared_ptr<Tracer> tracer);

  std::unique_ptr<MpiHandle> handle_;
  std::size_t rank_ = 0;
  std::size_t size_ = 1;
  std::size_t local_rank_ = 0;
  std::size_t local_size_ = 1;
  CommStats stats_;
  std::unique_ptr<Placement> placement_;
  std::unique_ptr<Patience> patience_;
  std::unique_ptr<Exchange> exchange_;
  std::unique_ptr<AllReduce> sums_;
  std::unique_ptr<Overlap> overlap_;
  std::shared_ptr<Tracer> tracer_;
};

}  // namespace tp
