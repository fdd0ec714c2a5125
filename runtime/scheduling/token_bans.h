// Tokens that must not come next in a text.
#pragma once

#include "tp/generation_defaults.h"
#include "tp/request.h"

#include <cstddef>
#include <span>
#include <vector>

namespace tp {

// Tokens that a request or the model's files ban.
struct TokenBans {
  std::vector<TokenId> ends{};            // tokens that end a text
  std::size_t min_tokens = 0;             // number of generated tokens after which `ends` are allowed
  std::vector<TokenId> model_ends{};      // the model's own end tokens
  std::size_t min_before_model_ends = 0;  // number of generated tokens after which `model_ends` are allowed
  std::vector<std::vector<TokenId>> words{};  // banned token sequences
  std::vector<TokenId> first{};               // tokens banned at index `beginning` of the generated tokens
  std::size_t beginning = 0;
  std::size_t no_repeat_ngram = 0;  // length of n-grams that must not repeat, prompt included; 0: no ban

  // The tokens banned after a text, in ascending order, without duplicates. The text begins with `prompt`
  // prompt tokens.
  std::vector<TokenId> after(std::span<const TokenId> text, std::size_t prompt) const;
};

// Adds the bans from the model's files, for at most `max_tokens` tokens after `prompt` prompt tokens. With a
// constraint, only banned words and suppressed tokens are added, because other bans could exclude every token
// that the constraint allows.
void add_defaults(const GenerationDefaults& defaults, std::size_t prompt, std::size_t max_tokens,
                  bool has_constraint, TokenBans& bans);

}  // namespace tp
