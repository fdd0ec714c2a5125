// Tokens that a text must not contain, or not yet.
#pragma once

#include "tp/generation_defaults.h"
#include "tp/request.h"

#include <cstddef>
#include <span>
#include <vector>

namespace tp {

// Tokens that a request and the model's files rule out.
struct TokenBans {
  std::vector<TokenId> ends{};                // tokens that end a text
  std::size_t min_tokens = 0;                 // generated tokens before `ends` are allowed
  std::vector<TokenId> model_ends{};          // the model's own end tokens
  std::size_t min_before_model_ends = 0;      // generated tokens before `model_ends` are allowed
  std::vector<std::vector<TokenId>> words{};  // sequences that are never completed
  std::vector<TokenId> first{};               // tokens banned as generated token number `beginning`
  std::size_t beginning = 0;
  std::size_t no_repeat_ngram = 0;  // length of sequences that occur only once, prompt included; 0: none

  // The tokens banned after a text, whose first `prompt` tokens were not generated: ascending, each once.
  std::vector<TokenId> after(std::span<const TokenId> text, std::size_t prompt) const;
};

// Adds the bans of the model's files for a text of at most `max_tokens` tokens after `prompt` prompt tokens.
// With a constraint, bans that depend on the text are left out, because they could block its only way to an
// end.
void add_defaults(const GenerationDefaults& defaults, std::size_t prompt, std::size_t max_tokens,
                  bool has_constraint, TokenBans& bans);

}  // namespace tp
