// Requests that are answered by beam search: each step of one is a request for the candidates behind each of
// its texts, all but the last tokens of which are in the prefix cache.
#pragma once

#include "runtime/scheduling/answer_counts.h"
#include "runtime/scheduling/leader.h"
#include "tp/event.h"
#include "tp/leader_status.h"
#include "tp/request.h"

#include <memory>
#include <mutex>
#include <unordered_map>

namespace tp {

class BeamRun;

class BeamSearches {
 public:
  // `options` are the leader's. `leader` and `tokenizer`, which may be null, must outlive it.
  BeamSearches(Leader& leader, LeaderOptions options, const Tokenizer* tokenizer);
  ~BeamSearches();

  // From any thread. Begins a search; events come when it ends, those of the n best texts one after the
  // other. Throws as Leader::submit does.
  RequestId submit(Request request, EventSink sink);
  // From any thread. Whether there is such a search; it then ends with RequestCancelled.
  bool cancel(RequestId id);
  // From any thread: adds what searches have found, and how they ended.
  void add_to(LeaderStatus& status) const;

 private:
  Leader& leader_;
  LeaderOptions options_;
  const Tokenizer* tokenizer_;
  mutable std::mutex mutex_;  // guards what follows
  std::unordered_map<RequestId, std::shared_ptr<BeamRun>> runs_;
  AnswerCounts counts_;  // of those that have ended
};

}  // namespace tp
