// The constraint of one request, with what else the request rules out.
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

// What a request rules out by other means.
struct Bans {
  std::vector<TokenId> tokens{};                  // by a bias or as a bad word of a single token
  std::vector<std::vector<TokenId>> sequences{};  // bad words of several tokens
  std::vector<TokenId> ends{};                    // tokens that end a text,
  std::size_t min_tokens = 0;                     // after this many others
};

// All members may be called by several threads. Their work is limited, as steps wait for it: at first a tenth
// of a second or so, and then about a millisecond for each token. Those that return states or masks throw
// RequestError for a constraint that takes longer.
class RequestConstraint {
 public:
  // Throws RequestError if no text satisfies the constraint with the tokens that the bans leave.
  RequestConstraint(std::shared_ptr<CompiledConstraint> compiled, Bans bans);

  Progress start() const;
  // After one more token: kDead for one that ends the text, or is not allowed.
  Progress after(Progress progress, TokenId token) const;
  // The tokens that may come next, those that end the text included.
  TokenMask allowed(Progress progress) const;
  // Whether allowed() is known, so that it takes no time.
  bool knows(Progress progress) const;
  // Tokens that come next without a choice; may be none. allowed() contains the first of them only.
  std::vector<TokenId> forced(Progress progress) const;
  // Whether the text is complete and nothing may follow, not even a token that ends it.
  bool is_over(Progress progress) const;

 private:
  // Holds the mutex of compiled_, and what work is left to its machine.
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
  // Guarded by the mutex of compiled_. Null where every state can be completed.
  mutable std::unique_ptr<Completions> completions_;
  mutable std::uint64_t work_left_;
  mutable std::map<StateId, TokenMask> masks_;  // without dead ends, where min_tokens does not matter
};

}  // namespace tp::constraint
