// A group of MPI ranks, such as a whole job or one pipeline stage.
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
  double seconds = 0.0;   // time spent in the calls, including waiting for other ranks

  CommCounter& operator+=(const CommCounter& other) {
    calls += other.calls;
    bytes += other.bytes;
    seconds += other.seconds;
    return *this;
  }
};

struct CommStats {
  CommCounter all_reduce;
  // The part of all_reduce that takes place between hosts; `bytes` counts only what this rank sent. With two
  // half-batches, wire.seconds is the duration of the transfers, but all_reduce.seconds is only this rank's
  // wait for the results.
  CommCounter wire;
  CommCounter gather;
  CommCounter exchange;  // small all-to-all exchanges while ranks choose tokens
  CommCounter broadcast;
  std::uint64_t inexact_sums = 0;  // all-reduces whose doubles may be too large to add exactly
  // Duration of each all-reduce that has not yet been compared across ranks; see waiting_seconds() in
  // parallel/exchange/collectives.h.
  std::vector<float> all_reduce_seconds;
  double waiting_seconds = 0.0;  // this rank's wait for slower ranks in the all-reduces compared so far
};

// How to react if a rank is late for a collective, for example because it is stopped, swapping, or reading
// from a slow disk.
struct WaitOptions {
  // Called once for each wait that exceeds `patience` seconds, on one of the waiting ranks, possibly on a
  // library thread.
  // Example: "waited 10 s in an all-reduce for rank 1 (process 4711 on node3)".
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

// Duplicates an MPI communicator, so that the library's messages don't mix with the program's. MPI must stay
// initialized as long as this object exists. Failed calls throw CommError. Not thread-safe.
class Communicator {
 public:
  // Collective over `parent`. To pass an MPI_Comm, include tp/mpi.h. Throws CommError.
  explicit Communicator(const MpiHandle& parent, WaitOptions waits = {});
  // A subgroup of `parent`, in the order of `ranks`, with the parent's wait options and trace. Collective
  // over `ranks`, which must all pass the same list. Throws CommError.
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

  // The hosts and processes of this group.
  const Placement& placement() const { return *placement_; }

  const Patience& patience() const { return *patience_; }

  // The duplicate of the MPI communicator.
  const MpiHandle& handle() const { return *handle_; }
  // For collectives other than sums. First waits for background sums; throws CommError if any has failed.
  Exchange& exchange();
  AllReduce& sums() { return *sums_; }
  // The object that computes sums in the background. The first call starts the communication thread.
  Overlap& overlap();
  // Whether two computations are currently taking turns, each one's all-reduces running in the background
  // while the other computes.
  bool overlaps() const;
  // Why ranks that share a host could not create shared memory for all-reduces; empty if they could, or if
  // they didn't try.
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
