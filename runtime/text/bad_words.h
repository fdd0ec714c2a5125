#pragma once

#include "model/tokenizer/tokenizer.h"
#include "tp/request.h"

#include <span>
#include <vector>

namespace tp {

// The token sequences that a request's continuations must not contain. A text is encoded twice, at the
// beginning of a word and inside one. `tokenizer` may be null if there are no texts.
std::vector<std::vector<TokenId>> bad_words_of(const Request& request, const Tokenizer* tokenizer);

// Adds those of the model's files, but for a token that ends a text.
void add_default_bad_words(const GenerationDefaults& defaults, std::span<const TokenId> ends,
                           std::vector<std::vector<TokenId>>& words);

}  // namespace tp
