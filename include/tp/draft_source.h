// Interface for a program's own source of draft tokens; see EngineHooks::draft_source.
#pragma once

#include "tp/request.h"
#include "tp/token_id.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tp {

// Draft tokens for one sequence.
struct Draft {
  std::vector<TokenId> tokens{};
  // For each token, the probability that the model accepts it and all tokens before it. Probabilities never
  // increase along a draft.
  std::vector<double> chances{};

  // Keeps the first `count` tokens.
  void shorten_to(std::size_t count) {
    if (count >= tokens.size()) return;
    tokens.resize(count);
    chances.resize(count);
  }
};

// A sequence that needs draft tokens.
struct DraftQuery {
  std::uint64_t sequence = 0;  // identifies the sequence in all calls
  // The prompt and the tokens generated so far. Each query about a sequence extends the previous query's
  // tokens.
  std::span<const TokenId> tokens{};
  std::size_t prompt_tokens = 0;
  std::size_t max_tokens = 0;  // maximum number of draft tokens
  // The sequence's request; null: unknown. Valid only during the call. The random draw for a token depends
  // only on `seed`, `sample` and the token's position in the sequence (from 0). A source that uses the same
  // draws predicts more tokens correctly.
  const Request* request = nullptr;
  std::uint64_t seed = 0;    // the request's seed, or the seed drawn for it
  std::uint64_t sample = 0;  // index among the request's n continuations
  // Measured seconds per token generated without drafts, and per draft token verified; 0: unknown. A source
  // can use these times to decide when further draft tokens no longer pay off.
  double token_seconds = 0.0;
  double row_seconds = 0.0;
};

// The engine calls a source on rank 0, on the thread that plans steps.
class DraftSource {
 public:
  virtual ~DraftSource() = default;

  // Returns one draft per query, with 0 to `max_tokens` tokens from the vocabulary. If draft() throws
  // std::bad_alloc, the step runs without drafts. After any other exception or an invalid draft, the engine
  // stops calling the source (SpeculationCounts::failure). Drafts never change the generated text.
  virtual std::vector<Draft> draft(std::span<const DraftQuery> queries) = 0;
  // Called with all tokens of a sequence that has ended, before end(), so that the source can later draft
  // from its text. Not called if Request::speculate is false, or if no token was generated. May throw like
  // draft().
  virtual void learn_from(const DraftQuery& /*text*/) {}
  // Frees a sequence's data, because the sequence has ended or draft() ran out of memory. In the latter case,
  // later queries may include the sequence again. Must not throw, even if the source has never seen the
  // sequence.
  virtual void end(std::uint64_t sequence) = 0;
};

}  // namespace tp
