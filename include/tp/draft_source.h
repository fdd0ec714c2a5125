// A source of draft tokens, for programs that guess better than this library does: see
// EngineOptions::draft_source.
#pragma once

#include "tp/request.h"
#include "tp/token_id.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tp {

// Guessed tokens of a sequence.
struct Draft {
  std::vector<TokenId> tokens{};
  // For each token, the probability that it and all tokens before it are accepted. Probabilities never rise.
  std::vector<double> chances{};

  // Keeps the first ones.
  void shorten_to(std::size_t count) {
    if (count >= tokens.size()) return;
    tokens.resize(count);
    chances.resize(count);
  }
};

// A sequence whose next tokens are to be guessed.
struct DraftQuery {
  std::uint64_t sequence = 0;  // its number
  std::span<const TokenId>
      tokens{};  // its prompt and what was generated; begins with those of earlier queries
  std::size_t prompt_tokens = 0;
  std::size_t most = 0;  // tokens to guess
  // How its tokens are drawn: the token at a position, counted from 0, by the noise of this seed, sample and
  // position. A source that draws with the same noise guesses right more often than one with its own. Null:
  // not known. Valid during the call.
  const Request* request = nullptr;
  std::uint64_t seed = 0;    // the request's, or the one that was drawn for it
  std::uint64_t sample = 0;  // which of the request's n continuations
  // Seconds that the step takes for each token that it chooses, and longer for each that is verified, as far
  // as they were measured: what a guess may cost. 0: guessing always pays.
  double token_seconds = 0.0;
  double row_seconds = 0.0;
};

// Called on rank 0 by the thread that runs the engine, when it plans a step.
class DraftSource {
 public:
  virtual ~DraftSource() = default;

  // A draft for each query, of up to `most` tokens of the vocabulary; it may be empty. If it throws
  // std::bad_alloc, the step has no drafts. After another exception, or a wrong draft, it is not asked any
  // more (SpeculationCounts::failure); no text changes.
  virtual std::vector<Draft> draft(std::span<const DraftQuery> queries) = 0;
  // A sequence has ended with these tokens; end() follows. For sources that guess from earlier answers. Not
  // called for requests without drafts (Request::speculate). May throw like draft().
  virtual void learn_from(const DraftQuery& /*text*/) {}
  // Forget the sequence: it has ended, or there was no memory for drafts, after which it may be asked about
  // again, from its beginning. It may be one that has never been asked about. Must not throw.
  virtual void end(std::uint64_t sequence) = 0;
};

}  // namespace tp
