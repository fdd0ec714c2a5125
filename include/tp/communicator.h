// A group of MPI ranks that hold one model together.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tp {

// Counts of what a communicator did on this rank.
struct CommCounter {
  std::size_t calls = 0;
  std::size_t bytes = 0;  // of this rank's payload, not of what the network carried
  double seconds = 0.0;   // from entering the call to leaving it, waiting for other ranks included
};

struct CommStats {
  CommCounter all_reduce;
  CommCounter gather;
  CommCounter exchange;  // of small values that all ranks get, while they choose tokens
  CommCounter broadcast;
  // Seconds of each of the last all-reduces, which have not been compared over ranks yet; see
  // waiting_seconds.
  std::vector<float> all_reduce_seconds;
  double waiting_seconds = 0.0;  // of the all-reduces that were compared
};

// What a rank does about ranks that do not reach a collective: stopped, swapping, or with a slow
// disk.
struct WaitOptions {
  // Called for a wait that takes longer than `patience` seconds, once a wait and by one of the ranks that
  // wait: "waited 10 s in an all-reduce for rank 1 (process 4711 on node3)".
  std::function<void(const std::string& text)> on_long_wait;
  double patience = 10.0;
  // Seconds after which a wait is a CommError; 0: never. Waiting for rank 0 to begin a step has no end.
  double timeout = 0.0;
};

struct MpiHandle;  // tp/mpi.h
class AllReduce;   // parallel/all_reduce.h
class Exchange;    // parallel/exchange.h
struct Patience;   // parallel/wait.h
struct Placement;  // parallel/placement.h
class Tracer;      // parallel/tracer.h

// A duplicate of an MPI communicator, so that our messages never mix with the embedding program's. MPI must
// be initialized while it lives. Calls that fail throw CommError. Used by one thread at a time.
class Communicator {
 public:
  // Collective over `parent`: an MPI_Comm, for which tp/mpi.h is included. Throws CommError.
  explicit Communicator(const MpiHandle& parent, WaitOptions waits = {});
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  std::size_t rank() const { return rank_; }
  std::size_t size() const { return size_; }
  bool is_root() const { return rank_ == 0; }
  // This rank among the ranks of its host, and their number.
  std::size_t local_rank() const { return local_rank_; }
  std::size_t local_size() const { return local_size_; }

  const Placement& placement() const { return *placement_; }

  // The duplicate.
  const MpiHandle& handle() const { return *handle_; }
  Exchange& exchange() { return *exchange_; }
  AllReduce& sums() { return *sums_; }
  // Why all-reduces do not go through shared memory although ranks share a host; empty if they do.
  const std::string& not_shared_because() const;
  CommStats& stats() { return stats_; }
  const CommStats& stats() const { return stats_; }
  Tracer& tracer() { return *tracer_; }

 private:
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
  std::unique_ptr<Tracer> tracer_;
};

}  // namespace tp
