// A group of MPI ranks: a whole job, or one of its pipeline stages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tp {

// Number and duration of one kind of collective on this rank.
struct CommCounter {
  std::size_t calls = 0;
  std::size_t bytes = 0;  // this rank's payload, not network traffic
  double seconds = 0.0;   // inside the calls, including the wait for other ranks

  CommCounter& operator+=(const CommCounter& other) {
    calls += other.calls;
    bytes += other.bytes;
    seconds += other.seconds;
    return *this;
  }
};

struct CommStats {
  CommCounter all_reduce;
  // The part of all_reduce between hosts, with the bytes that this rank sent. With two half-batches, these
  // seconds are the time on the wire, and all_reduce contains only the time that the rank waited for it.
  CommCounter wire;
  CommCounter gather;
  CommCounter exchange;  // small all-to-all exchanges while ranks choose tokens
  CommCounter broadcast;
  std::uint64_t inexact_sums = 0;  // all-reduces of doubles that may be too large for an exact sum
  // Duration of each all-reduce that has not been compared across ranks yet; see waiting_seconds().
  std::vector<float> all_reduce_seconds;
  double waiting_seconds = 0.0;  // time spent waiting in the all-reduces that were compared
};

// Reaction to ranks that don't reach a collective, because they are stopped, swapping or reading from a slow
// disk.
struct WaitOptions {
  // Called once per wait longer than `patience` seconds, on one waiting rank, possibly on a library thread.
  // Example: "waited 10 s in an all-reduce for rank 1 (process 4711 on node3)".
  std::function<void(const std::string& text)> on_long_wait;
  double patience = 10.0;
  // Seconds after which a wait throws CommError; 0: never. Waiting for rank 0 to start a step times out only
  // if its process is stopped.
  double timeout = 0.0;
};

struct MpiHandle;  // tp/mpi.h
class AllReduce;   // parallel/exchange/all_reduce.h
class Exchange;    // parallel/exchange/exchange.h
class Overlap;     // parallel/exchange/overlap.h
struct Patience;   // parallel/exchange/wait.h
struct Placement;  // parallel/exchange/placement.h
class Tracer;      // parallel/exchange/tracer.h

// Duplicates an MPI communicator, so that the library's messages never mix with the program's. MPI must stay
// initialized as long as this object exists. Failed calls throw CommError. Not thread-safe.
class Communicator {
 public:
  // Collective over `parent`, an MPI_Comm (include tp/mpi.h to pass one). Throws CommError.
  explicit Communicator(const MpiHandle& parent, WaitOptions waits = {});
  // A subgroup of `parent`, in the order of `ranks`, with the wait options and the trace of `parent`.
  // Collective over these ranks, which must all pass equal `ranks`; throws CommError.
  Communicator(const Communicator& parent, std::span<const std::size_t> ranks);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  std::size_t rank() const { return rank_; }
  std::size_t size() const { return size_; }
  bool is_root() const { return rank_ == 0; }
  // This rank's index among the ranks of its host, and the number of ranks on the host.
  std::size_t local_rank() const { return local_rank_; }
  std::size_t local_size() const { return local_size_; }

  // Hosts and ranks as messages name them: ranks have their numbers in the job.
  const Placement& placement() const { return *placement_; }

  const Patience& patience() const { return *patience_; }

  // The duplicated communicator.
  const MpiHandle& handle() const { return *handle_; }
  // Waits until background sums, if any, are complete. Throws CommError if they failed.
  Exchange& exchange();
  AllReduce& sums() { return *sums_; }
  // Background sums. The first call starts them.
  Overlap& overlap();
  // Whether two computations take turns while their sums run in the background.
  bool overlaps() const;
  // Reason why all-reduces don't use shared memory although ranks share a host; empty if they use it.
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
