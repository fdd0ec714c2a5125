// A group of MPI ranks that hold one model together.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <mpi.h>

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
  CommCounter broadcast;
  // Seconds of every single all-reduce since they were last compared over ranks; see waiting_seconds.
  std::vector<float> all_reduce_seconds;
  double waiting_seconds = 0.0;  // of the all-reduces that were compared
};

class SharedSum;  // parallel/shared_sum.h
class Tracer;     // parallel/tracer.h

// A duplicate of an MPI communicator, so that our messages never mix with the embedding program's. MPI must
// be initialized while it lives. Calls that fail throw CommError. Used by one thread at a time.
class Communicator {
 public:
  // Collective over `parent`. Throws CommError.
  explicit Communicator(MPI_Comm parent);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  std::size_t rank() const { return rank_; }
  std::size_t size() const { return size_; }
  bool is_root() const { return rank_ == 0; }
  // This rank among the ranks of its host, and their number.
  std::size_t local_rank() const { return local_rank_; }
  std::size_t local_size() const { return local_size_; }
  // Whether the ranks of this host outnumber the processors they may run on: then waiting must not spin.
  bool oversubscribed() const { return oversubscribed_; }

  MPI_Comm handle() const { return handle_; }
  // The fast path among ranks of one host; null if there is none.
  SharedSum* shared_sum() const { return shared_sum_.get(); }
  CommStats& stats() { return stats_; }
  const CommStats& stats() const { return stats_; }
  Tracer& tracer() { return *tracer_; }

 private:
  MPI_Comm handle_ = MPI_COMM_NULL;
  std::size_t rank_ = 0;
  std::size_t size_ = 1;
  std::size_t local_rank_ = 0;
  std::size_t local_size_ = 1;
  bool oversubscribed_ = false;
  CommStats stats_;
  std::unique_ptr<SharedSum> shared_sum_;
  std::unique_ptr<Tracer> tracer_;
};

}  // namespace tp
