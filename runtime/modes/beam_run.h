// A beam search, driven by the events of its requests.
#pragma once

#include "runtime/modes/beam_state.h"
#include "runtime/scheduling/answer_counts.h"
#include "runtime/scheduling/leader.h"
#include "runtime/scheduling/token_bans.h"
#include "tp/event.h"
#include "tp/request.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace tp {

// Largest number of candidates in a step of a search, over all of its texts. Other requests wait for such a
// step.
inline constexpr std::size_t kMaxBeamCandidates = std::size_t{1} << 20;

class BeamRun : public std::enable_shared_from_this<BeamRun> {
 public:
  struct Setup {
    RequestId id = 0;
    Request request;  // checked, with the model's defaults
    std::vector<TokenId> ends{};
    std::size_t max_tokens = 0;
    TokenBans bans{};
    std::optional<TokenId> forced_last{};
    std::size_t vocab_size = 0;
    EventSink sink;
    std::function<void(const AnswerCounts&)> on_end{};  // called once, before the last event
  };

  // `leader` and `tokenizer`, which may be null, must outlive this object.
  BeamRun(Leader& leader, const Tokenizer* tokenizer, Setup setup);

  // Submits the first pass. Throws like Leader::submit; then the search has not begun.
  void begin();
  // From any thread.
  void cancel();

 private:
  std::optional<TokenId> forced_next() const;
  std::vector<TokenId> banned_behind(const Beam& beam) const;
  std::size_t candidates_behind(const std::vector<TokenId>& banned) const;
  Request request_of(const Beam& beam, std::size_t candidates) const;
  void advance_forced();
  void ask(bool is_first);
  void receive(std::size_t beam, const Event& event);
  void advance();
  void choose();
  bool is_cancelled();
  void fail(const std::string& error);
  void end();
  AnswerCounts counts(bool cancelled) const;
  TokenEvent event_of(int sample) const;
  void emit_texts();
  void emit_text(int sample, const FinishedBeam& text);
  void emit_error(const std::string& error);

  Leader& leader_;
  const Tokenizer* tokenizer_;
  Setup setup_;
  BeamState state_;
  RequestTimes times_;
  std::size_t cached_tokens_ = 0;
  std::string error_;
  std::vector<std::vector<TokenId>> banned_;           // [running], ascending
  std::vector<std::vector<TokenLogprob>> candidates_;  // [running]
  std::size_t awaited_ = 0;                            // requests that have not ended
  std::mutex mutex_;                                   // guards the members below
  bool cancelled_ = false;
  std::vector<RequestId> asked_;  // requests of the current step
};

}  // namespace tp
