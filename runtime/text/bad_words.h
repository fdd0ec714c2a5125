#pragma once

#include "model/tokenizer/tokenizer.h"
#include "tp/request.h"

#include <span>
#include <vector>

namespace tp {

// The token sequences that a request's continuations must not contain. A text is encoded in two forms: at the
// beginning of a word (after a space) and inside a word. `tokenizer` may be null if there are no texts.
std::vector<std::vector<TokenId>> bad_words_of(const Request& request, const Tokenizer* tokenizer);

// Adds the bad words of the model's files, except tokens that end a text.
void add_default_bad_words(const GenerationDefaults& defaults, std::span<const TokenId> ends,
                           std::vector<std::vector<TokenId>>& words);

}  // namespace tp
