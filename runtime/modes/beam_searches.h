// Answers requests by beam search. In each step of a search, a request for each text asks for candidates for
// the next token. The prefix cache contains all tokens of a text but the last.
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
  // `options`: the leader's options. `leader` and `tokenizer`, which may be null, must outlive this object.
  BeamSearches(Leader& leader, LeaderOptions options, const Tokenizer* tokenizer);
  ~BeamSearches();

  // From any thread. Begins a search. Its events come when it ends: the events of the n best texts, one text
  // after the other. Throws like Leader::submit.
  RequestId submit(Request request, EventSink sink);
  // From any thread. Returns whether the search exists. It then ends with RequestCancelled.
  bool cancel(RequestId id);
  // From any thread. Adds the tokens that searches have found, and how searches ended.
  void add_to(LeaderStatus& status) const;

 private:
  Leader& leader_;
  LeaderOptions options_;
  const Tokenizer* tokenizer_;
  mutable std::mutex mutex_;  // guards the members below
  std::unordered_map<RequestId, std::shared_ptr<BeamRun>> runs_;
  AnswerCounts counts_;  // counts of the ended searches
};

}  // namespace tp
