// The sequences waiting to be scheduled. Sequences with kept cache blocks or soft embeddings come first.
// Apart from that, sequences are ordered by priority, then by age.
#pragma once

#include "runtime/scheduling/sequence.h"
#include "tp/event.h"

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <vector>

namespace tp {

// Number of requests, and total length of their prompts in tokens.
struct RequestCounts {
  std::size_t requests = 0;
  std::size_t prompt_tokens = 0;
};

// At most one sample per request waits to start. When that sample leaves the queue, the next one is created.
class WaitingQueue {
 public:
  using Sequences = std::list<std::shared_ptr<Sequence>>;
  using Place = Sequences::iterator;

  // Queues a request's samples. Returns the samples that have been created: the first one, or all samples of
  // a request with generated tokens, because each of them may have ended.
  std::vector<std::shared_ptr<Sequence>> add(const std::shared_ptr<RequestState>& state);
  // Queues a preempted sequence before all sequences of the same priority, but after sequences with kept
  // blocks.
  void put_back(const std::shared_ptr<Sequence>& sequence);
  // Removes a sequence. The next sample of its request, if any, takes its place. Returns the entry now at
  // that place.
  Place dequeue(Place place);
  // Counts a request as no longer waiting: a sample has left the queue, or the request has ended.
  void leave(RequestState& state);
  // Removes ended sequences and appends them to `removed`.
  void remove_finished(std::vector<std::shared_ptr<Sequence>>& removed);
  // Drops a request's samples that have not started, and returns their number.
  std::size_t drop_samples(RequestState& state);

  const Sequences& sequences() const { return sequences_; }
  Place begin() { return sequences_.begin(); }
  Place end() { return sequences_.end(); }
  bool empty() const { return sequences_.empty(); }
  // Number of waiting samples, including samples not created yet.
  std::size_t size() const { return size_; }
  // All requests that have left the queue so far.
  const RequestCounts& left() const { return left_; }

  // Throws std::logic_error naming the first violated invariant.
  void check_invariants() const;

 private:
  std::shared_ptr<Sequence> make_sample(const std::shared_ptr<RequestState>& state);

  Sequences sequences_;
  std::size_t size_ = 0;
  RequestCounts left_;
  SequenceId next_id_ = 1;
};

}  // namespace tp
