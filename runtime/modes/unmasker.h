// Generates text with a diffusion language model. A request becomes passes over its whole text. Each pass is
// a request to the leader for proposals at the masked positions. The positions that a pass unmasks determine
// the next pass. Passes of several requests share steps, like prompts.
#pragma once

#include "model/tokenizer/tokenizer.h"
#include "runtime/modes/unmasked_text.h"
#include "runtime/scheduling/answer_counts.h"
#include "runtime/scheduling/leader.h"
#include "runtime/scheduling/mode.h"
#include "tp/event.h"
#include "tp/leader_status.h"
#include "tp/request.h"

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace tp {

class Unmasker : public Mode {
 public:
  // `leader` and `tokenizer`, which may be null, must outlive this object.
  Unmasker(Leader& leader, const LeaderOptions& options, const Tokenizer* tokenizer);

  bool answers(const Request& request) const override { return request.max_tokens > 0; }
  // The leader's thread passes events to `sink`.
  RequestId submit(Request request, EventSink sink) override;
  bool cancel(RequestId request) override;
  void add_to(LeaderStatus& status) const override;

 private:
  struct Job;
  struct Run;

  std::shared_ptr<Job> make_job(Request request, EventSink sink) const;
  void check_cache(UnmaskCache asked) const;
  // Throws RequestError.
  void check_canvases(const Unmasking& asked, const UnmaskingPlan& plan) const;
  UnmaskedText::RandomTokens random_tokens(const RequestState& state, int sample) const;
  void start_pass(const std::shared_ptr<Job>& job, std::size_t run, bool is_first);
  void set_canvas(const Job& job, Run& run, Request& request, Pass& pass);
  void on_event(const std::shared_ptr<Job>& job, std::size_t run, const Event& event);
  void end_pass(const std::shared_ptr<Job>& job, std::size_t run);
  void unmask(Job& job, Run& run);
  void fail(Job& job, Run& run, const std::string& error);
  void release_block(Run& run);
  void end(const std::shared_ptr<Job>& job, Run& run);

  Leader& leader_;
  std::string model_;
  DiffusionSpec spec_;
  CanvasDefaults canvas_;
  std::size_t vocab_size_;
  UnmaskCache cache_;
  std::size_t max_length_;
  std::size_t max_canvas_;  // most tokens of a text that is computed as a whole
  std::vector<TokenId> eos_token_ids_;
  const Tokenizer* tokenizer_;

  mutable std::mutex mutex_;  // guards the members below, and members of Job and Run as marked there
  std::map<RequestId, std::shared_ptr<Job>> jobs_;
  AnswerCounts counts_;
};

}  // namespace tp
