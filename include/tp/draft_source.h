// Interface for a program's own source of draft tokens; see EngineOptions::draft_source.
#pragma once

#include "tp/request.h"
#include "tp/token_id.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tp {

// Draft tokens of a sequence.
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
  std::uint64_t sequence = 0;         // identifies the sequence in all calls
  std::span<const TokenId> tokens{};  // prompt and generated tokens; begins with earlier queries' tokens
  std::size_t prompt_tokens = 0;
  std::size_t most = 0;  // maximum number of draft tokens
  // The sequence's request; null: unknown. Valid during the call. The random draw of each token depends only
  // on seed, sample and position (from 0). A source that uses the same draws predicts more tokens correctly.
  const Request* request = nullptr;
  std::uint64_t seed = 0;    // the request's seed, or the seed drawn for it
  std::uint64_t sample = 0;  // index of the continuation among the request's n
  // Measured seconds of a step per chosen token, and per additional token to verify. These times limit the
  // cost of a draft. 0: unknown.
  double token_seconds = 0.0;
  double row_seconds = 0.0;
};

// The engine calls a source on rank 0, on the thread that plans steps.
class DraftSource {
 public:
  virtual ~DraftSource() = default;

  // Returns one draft per query, with 0 to `most` tokens of the vocabulary. If draft() throws std::bad_alloc,
  // the step runs without drafts. After any other exception or an invalid draft, the engine stops calling the
  // source (SpeculationCounts::failure). Drafts never change the generated text.
  virtual std::vector<Draft> draft(std::span<const DraftQuery> queries) = 0;
  // Called with all tokens of a sequence that has ended, before end(). For sources that draft from earlier
  // answers. Not called for requests without drafts (Request::speculate). May throw like draft().
  virtual void learn_from(const DraftQuery& /*text*/) {}
  // Forgets a sequence, because it has ended or there was no memory for drafts. After a lack of memory, the
  // sequence may return in later queries. The source may never have seen the sequence. Must not throw.
  virtual void end(std::uint64_t sequence) = 0;
};

}  // namespace tp
