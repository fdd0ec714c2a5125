// A source of draft tokens, for programs with better drafts than this library's: see
// EngineOptions::draft_source.
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
  // For each token, the probability that it and all tokens before it are accepted. Probabilities never rise.
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
  std::uint64_t sequence = 0;         // number of the sequence
  std::span<const TokenId> tokens{};  // prompt and generated tokens; extends the tokens of earlier queries
  std::size_t prompt_tokens = 0;
  std::size_t most = 0;  // largest number of draft tokens
  // Seed, sample and position (counted from 0) determine the random draw of each token. A source that uses
  // the same draws is right more often. Null: unknown. Valid during the call.
  const Request* request = nullptr;
  std::uint64_t seed = 0;    // the request's seed, or the one drawn for it
  std::uint64_t sample = 0;  // index of the continuation among the request's n
  // Measured seconds of a step per chosen token, and per additional verified token. They limit what a draft
  // may cost. 0: unknown.
  double token_seconds = 0.0;
  double row_seconds = 0.0;
};

// The engine calls a source on rank 0, on the thread that plans steps.
class DraftSource {
 public:
  virtual ~DraftSource() = default;

  // Returns a draft of 0 to `most` vocabulary tokens per query. If it throws std::bad_alloc, the step has no
  // drafts. After any other exception or an invalid draft, the engine stops calling the source
  // (SpeculationCounts::failure). Generated text never changes.
  virtual std::vector<Draft> draft(std::span<const DraftQuery> queries) = 0;
  // Called with all tokens of a sequence that has ended, before end(). For sources that draft from earlier
  // answers. Not called for requests without drafts (Request::speculate). May throw like draft().
  virtual void learn_from(const DraftQuery& /*text*/) {}
  // Forgets a sequence, because it has ended or there was no memory for drafts. In the second case, later
  // queries may begin it again. The source may never have seen the sequence. Must not throw.
  virtual void end(std::uint64_t sequence) = 0;
};

}  // namespace tp
