#pragma once

#include "model/tokenizer/tokenizer.h"
#include "tp/token_id.h"

#include <vector>

namespace tp {

// The folded id of each token, [vocab_size]. Tokens whose texts differ only in case, accents, forms of
// characters, or white space at their ends have one folded id. So do tokens of nothing but blanks. Tokens
// that are not whole characters keep their own spelling. Folded ids are numbered in the order in which they
// appear. Source: DeepSeek, Engram, 2026.
std::vector<TokenId> folded_tokens(Tokenizer tokenizer);

}  // namespace tp
