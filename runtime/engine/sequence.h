// One continuation of a prompt while it is being generated.
#pragma once

#include "runtime/engine/block_manager.h"
#include "runtime/text/text_stream.h"
#include "tp/event.h"
#include "tp/request.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace tp {

// The state shared by the samples of one request.
struct RequestState {
  RequestId id = 0;
  Request request;
  std::uint64_t seed = 0;                       // the request's, or one drawn for it
  std::size_t max_tokens = 0;                   // to generate, limited by the maximum length of a sequence
  std::vector<TokenId> end_ids;                 // tokens that end it, including the model's own
  std::vector<std::vector<TokenId>> bad_words;  // as tokens
  EventSink sink;
  RequestTimes times;
  int not_begun = 0;     // samples, of request.n
  int open_samples = 0;  // that have not ended, including those that have not begun
  bool cancelled = false;
  std::size_t cached_tokens = 0;  // of its first sample, when that has ended
  bool has_left_queue = false;    // something of it was scheduled, or it has ended

  // How many of the prompt's tokens are computed. The last one is left out if nothing is predicted from it,
  // that is if only scores are wanted.
  std::size_t prompt_work() const {
    return max_tokens == 0 && !request.prompt_logits ? request.prompt.size() - 1 : request.prompt.size();
  }
};

struct Sequence {
  SequenceId id = 0;
  std::shared_ptr<RequestState> state;
  int sample = 0;  // 0 is the primary, which has the prompt's outputs

  std::vector<TokenId> tokens;      // the prompt and generated tokens; empty until it is first considered
  std::size_t cached_tokens = 0;    // prompt tokens found in the prefix cache when it first began
  std::size_t planned_tokens = 0;   // in the cache, or will be after the steps in flight
  std::size_t computed_tokens = 0;  // in the cache
  std::size_t granted = 0;          // of these, in the step that is being planned
  std::size_t in_flight = 0;        // steps that compute some of its tokens and have not been settled
  bool awaits_token = false;        // one of these steps chooses its next token
  std::size_t asked_from = 0;  // the first position of the prompt with an output that has not been delivered
  std::vector<std::vector<TokenLogprob>> prompt_top{};  // of positions whose scores have not come yet
  std::size_t sent_blocks = 0;                          // of each of its tables, sent to the ranks
  bool announced = false;                               // the ranks have a table for it
  std::optional<TextStream> text;                       // from its first token on, if there is a tokenizer
  FinishReason finish_reason = FinishReason::none;

  // While it waits.
  std::size_t overtaken = 0;            // times that others were admitted instead, for which there was room
  std::uint64_t compared_to = 0;        // admission of the last sequence whose prefix it was compared with
  std::weak_ptr<const Sequence> ahead;  // a running sequence that computes a prefix of this one,
  std::size_t shared_tokens = 0;        // of this many tokens

  // While it runs: 1, 2, ... in the order of admission; else 0.
  std::uint64_t admission = 0;
  std::uint64_t last_turn = 0;  // of prompts in a step: when it had one, counted by the scheduler

  int priority() const { return state->request.priority; }
  std::size_t prompt_tokens() const { return state->request.prompt.size(); }
  std::size_t generated_tokens() const { return tokens.size() - prompt_tokens(); }
  bool finished() const { return finish_reason != FinishReason::none; }
  // Tokens whose keys and values are needed for the next output.
  std::size_t work() const { return generated_tokens() == 0 ? state->prompt_work() : tokens.size(); }
  // Whether nothing of it can be planned until a step in flight is settled.
  bool idle() const { return finished() || awaits_token || planned_tokens == work(); }
  // Whether the next token is all that has to be computed, or is in flight.
  bool decodes() const { return generated_tokens() > 0 && planned_tokens + 1 >= tokens.size(); }
  // Whether the request's next sample can begin when this one has.
  bool is_last_begun() const {
    return state->not_begun > 0 && sample + 1 == state->request.n - state->not_begun;
  }
  // Whether all of it has to be computed in the same step.
  bool indivisible() const { return state->request.attention == AttentionMask::bidirectional; }
  bool uses_prefix_cache() const { return state->request.cache_prompt && !indivisible(); }
  // Whether the prompt has outputs from `asked_from` on that have not been delivered.
  bool is_asked() const {
    const Request& request = state->request;
    if (sample != 0) return false;
    return request.prompt_logits ? asked_from < prompt_tokens()
                                 : request.score_from.has_value() && asked_from + 1 < prompt_tokens();
  }
};

}  // namespace tp
