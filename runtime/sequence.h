// One continuation of a prompt while it is being made.
#pragma once

#include "runtime/block_manager.h"
#include "runtime/detokenizer.h"
#include "runtime/stop_matcher.h"
#include "runtime/token_history.h"
#include "tp/request.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace tp {

// Tokens on their way to text.
struct TextStream {
  Detokenizer detokenizer;
  StopMatcher stops;
};

// What the samples of one request share, and where each of them begins.
struct RequestState {
  std::uint64_t id = 0;
  SequenceId first_sequence = 0;  // of its first sample; the others have the numbers after it
  Request request;
  std::uint64_t seed = 0;          // the request's, or one drawn for it
  std::size_t max_tokens = 0;      // to generate; at most what the model's longest sequence leaves
  TokenHistory history;            // of the prompt, if that matters
  std::optional<TextStream> text;  // after the prompt; none without a tokenizer
};

struct Sequence {
  Sequence(std::shared_ptr<const RequestState> request, int sample_index)
      : id(request->first_sequence + static_cast<SequenceId>(sample_index)),
        state(std::move(request)),
        sample(sample_index),
        tokens(state->request.prompt),
        prompt_tokens(tokens.size()),
        history(state->history),
        text(state->text) {}

  SequenceId id;
  std::shared_ptr<const RequestState> state;
  int sample;

  std::vector<TokenId> tokens;  // prompt and what has been generated
  std::size_t prompt_tokens;
  std::size_t cached_tokens = 0;    // of the prompt, that the cache held when the sequence was begun first
  std::size_t computed_tokens = 0;  // of which keys and values are in the cache
  std::size_t planned_tokens = 0;   // that the step at hand computes
  std::size_t sent_blocks = 0;      // of its table that the ranks know
  bool announced = false;           // the ranks have a table for it
  TokenHistory history;
  std::optional<TextStream> text;
  FinishReason finish_reason = FinishReason::none;

  std::size_t generated_tokens() const { return tokens.size() - prompt_tokens; }
  bool finished() const { return finish_reason != FinishReason::none; }
};

}  // namespace tp
