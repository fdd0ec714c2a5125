#pragma once

#include "model/tokenizer/steps/pre_tokens.h"

namespace tp {

// Replaces each piece with the text that `rewrite(piece, is_first, out)` appends. `is_first`: the piece
// begins with the first character of the user's text.
template <class Rewrite>
void rewrite_pieces(PreTokens& tokens, Rewrite&& rewrite) {
  std::string text;
  text.reserve(tokens.text.size() + tokens.text.size() / 4);
  std::vector<Span> pieces;
  pieces.reserve(tokens.pieces.size());
  std::size_t start = 0;
  for (const Span& piece : tokens.pieces) {
    const std::size_t begin = text.size();
    const bool is_first = piece.begin < tokens.start;
    rewrite(tokens.view(piece), is_first, text);
    if (text.size() == begin) continue;
    pieces.push_back({begin, text.size()});
    if (is_first) start = begin + 1;
  }
  tokens.start = start;
  tokens.text = std::move(text);
  tokens.pieces = std::move(pieces);
}

}  // namespace tp
