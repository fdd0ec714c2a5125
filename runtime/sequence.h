// One continuation of a prompt while it is being made.
#pragma once

#include "runtime/block_manager.h"
#include "runtime/token_history.h"
#include "tp/request.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace tp {

// What the samples of one request share.
struct RequestState {
  std::uint64_t id = 0;
  Request request;
  std::uint64_t seed = 0;      // the request's, or one drawn for it
  std::size_t max_tokens = 0;  // to generate; at most what the model's longest sequence leaves
};

struct Sequence {
  SequenceId id = 0;
  std::shared_ptr<const RequestState> state;
  int sample = 0;
  // The first sample of the same prompt: the others wait until its prompt is in the cache, and share its
  // blocks.
  SequenceId leader = 0;

  std::vector<TokenId> tokens;  // prompt and what has been generated
  std::size_t prompt_tokens = 0;
  std::size_t cached_tokens = 0;    // of the prompt, that the cache held when the sequence was begun first
  std::size_t computed_tokens = 0;  // of which keys and values are in the cache
  std::size_t sent_blocks = 0;      // of its table that the ranks know
  bool announced = false;           // the ranks have a table for it
  TokenHistory history;
  FinishReason finish_reason = FinishReason::none;

  std::size_t generated_tokens() const { return tokens.size() - prompt_tokens; }
  bool finished() const { return finish_reason != FinishReason::none; }
};

}  // namespace tp
