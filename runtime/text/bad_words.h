#pragma once

#include "model/tokenizer/tokenizer.h"
#include "tp/request.h"

#include <vector>

namespace tp {

// What a request's continuations must not hold, as rows of tokens: a text is avoided where it begins a word
// and where it does not. `tokenizer` may be null if there are no texts.
std::vector<std::vector<TokenId>> bad_words_of(const Request& request, const Tokenizer* tokenizer);

}  // namespace tp
