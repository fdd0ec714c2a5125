// Answers requests by beam search. In each step of a search, a request for each text asks for candidates for
// the next token. The prefix cache contains all tokens of a text but the last.
#pragma once

#include "runtime/scheduling/answer_counts.h"
#include "runtime/scheduling/leader.h"
#include "runtime/scheduling/mode.h"
#include "tp/event.h"
#include "tp/leader_status.h"
#include "tp/request.h"

#include <memory>
#include <mutex>
#include <unordered_map>

namespace tp {

class BeamRun;

class BeamSearches : public Mode {
 public:
  // `options`: the leader's options. `leader` and `tokenizer`, which may be null, must outlive this object.
  BeamSearches(Leader& leader, LeaderOptions options, const Tokenizer* tokenizer);
  ~BeamSearches() override;

  bool answers(const Request& request) const override { return request.beam_search.has_value(); }
  // A search's events come when it ends: the events of the n best texts, one text after the other.
  RequestId submit(Request request, EventSink sink) override;
  bool cancel(RequestId id) override;
  void add_to(LeaderStatus& status) const override;

 private:
  Leader& leader_;
  LeaderOptions options_;
  const Tokenizer* tokenizer_;
  mutable std::mutex mutex_;  // guards the members below
  std::unordered_map<RequestId, std::shared_ptr<BeamRun>> runs_;
  AnswerCounts counts_;  // counts of the ended searches
};

}  // namespace tp
