// The constraint of one request, combined with the request's bans.
#pragma once

#include "runtime/constraint/compiled_constraint.h"
#include "runtime/constraint/completions.h"
#include "tp/token_id.h"
#include "tp/token_mask.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace tp::constraint {

// Tokens that a request rules out by other means.
struct Bans {
  std::vector<TokenId> tokens{};                  // by a bias, or as a bad word of a single token
  std::vector<std::vector<TokenId>> sequences{};  // bad words of several tokens
  std::vector<TokenId> ends{};                    // tokens that end a text
  std::size_t min_tokens = 0;                     // least number of tokens before them
};

// All members may be called by several threads. Their work is limited, because steps wait for it: to about a
// tenth of a second at first, and then to about a millisecond per token. Members that return states or masks
// throw RequestError if the constraint takes longer.
class RequestConstraint {
 public:
  // Throws RequestError if no text without banned tokens satisfies the constraint.
  RequestConstraint(std::shared_ptr<CompiledConstraint> compiled, Bans bans);

  Progress start() const;
  // The progress after one more token: kDead if the token ends the text or is not allowed.
  Progress after(Progress progress, TokenId token) const;
  // The tokens that may come next, including tokens that end the text.
  TokenMask allowed(Progress progress) const;
  // Whether allowed() is already known, so that it takes no time.
  bool knows(Progress progress) const;
  // The next tokens if there is no choice; may be empty. allowed() contains only the first of them.
  std::vector<TokenId> forced(Progress progress) const;
  // Whether the text is complete and nothing may follow, not even a token that ends the text.
  bool is_over(Progress progress) const;

 private:
  // Holds the mutex of compiled_, and limits the work of its machine.
  class Use;

  // The caller must hold the mutex of compiled_.
  std::vector<TokenId> forced_now(Progress progress) const;
  bool is_banned(TokenId token) const;
  StateId state_after(StateId state, TokenId token) const;
  TokenMask usable() const;
  bool can_complete(StateId state, std::size_t tokens) const;
  void remove_dead_ends(Progress progress, TokenMask& mask) const;

  std::shared_ptr<CompiledConstraint> compiled_;
  Bans bans_;
  // Guarded by the mutex of compiled_. Null if every state can be completed.
  mutable std::unique_ptr<Completions> completions_;
  mutable std::uint64_t work_left_;
  mutable std::map<StateId, TokenMask> masks_;  // masks without dead ends, if min_tokens does not matter
};

}  // namespace tp::constraint
