// One continuation of a prompt while it is being made.
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

// What the samples of one request share.
struct RequestState {
  RequestId id = 0;
  Request request;
  std::uint64_t seed = 0;        // the request's, or one drawn for it
  std::size_t max_tokens = 0;    // to generate; at most what the model's longest sequence leaves
  std::vector<TokenId> end_ids;  // tokens that end it, the model's own included
  std::vector<std::vector<TokenId>> bad_words;  // as tokens
  EventSink sink;
  RequestTimes times;
  int not_begun = 0;     // samples, of request.n
  int open_samples = 0;  // that have not ended, those that have not begun included
  bool cancelled = false;

  // Tokens of the prompt that are computed at most. To ask about the prompt alone, nothing comes after its
  // last token, which only has to be predicted.
  std::size_t prompt_work() const {
    return max_tokens == 0 && !request.prompt_logits ? request.prompt.size() - 1 : request.prompt.size();
  }
};

struct Sequence {
  SequenceId id = 0;
  std::shared_ptr<RequestState> state;
  int sample = 0;  // 0 is the primary: it answers what is asked about the prompt

  std::vector<TokenId> tokens;    // prompt and what has been generated; empty before its turn comes first
  std::size_t cached_tokens = 0;  // of the prompt, that the cache held when the sequence was begun first
  std::size_t planned_tokens =
      0;  // of which keys and values are in the cache, or will be after steps in flight
  std::size_t computed_tokens = 0;  // of which they are
  std::size_t in_flight = 0;        // steps that compute some of it and have not been settled
  bool awaits_token = false;        // one of them gives its next token
  std::size_t asked_from = 0;       // the first position of the prompt that something is still asked about
  std::size_t sent_blocks = 0;      // of each of its tables that the ranks know
  bool announced = false;           // the ranks have a table for it
  std::optional<TextStream> text;   // from its first token on, if there is a tokenizer
  FinishReason finish_reason = FinishReason::none;

  // While it waits.
  std::size_t overtaken = 0;            // times that others were admitted for which there was room
  std::uint64_t compared_to = 0;        // the last admitted sequence whose beginning it was compared with
  std::weak_ptr<const Sequence> ahead;  // it computes a beginning that this one will share,
  std::size_t shared_tokens = 0;        // of so many tokens

  // While it runs: 1, 2, ... in the order of admission; else 0.
  std::uint64_t admission = 0;

  std::size_t prompt_tokens() const { return state->request.prompt.size(); }
  std::size_t generated_tokens() const { return tokens.size() - prompt_tokens(); }
  bool finished() const { return finish_reason != FinishReason::none; }
  // Tokens of which keys and values are needed for what is wanted next.
  std::size_t work() const { return generated_tokens() == 0 ? state->prompt_work() : tokens.size(); }
  // Nothing can be planned before a step in flight is settled.
  bool idle() const { return finished() || awaits_token || planned_tokens == work(); }
  // One more sample of the request can begin when this one has.
  bool is_last_begun() const {
    return state->not_begun > 0 && sample + 1 == state->request.n - state->not_begun;
  }
  // Whether something is still to be said of the prompt's positions from `asked_from` on.
  bool is_asked() const {
    const Request& request = state->request;
    if (sample != 0) return false;
    return request.prompt_logits ? asked_from < prompt_tokens()
                                 : request.score_from.has_value() && asked_from + 1 < prompt_tokens();
  }
};

}  // namespace tp
