#pragma once

#include "model/tokenizer/steps/pre_tokens.h"

namespace tp {

// Replaces each piece with the text that `rewrite(piece, out)` appends.
template <class Rewrite>
void rewrite_pieces(PreTokens& tokens, Rewrite&& rewrite) {
  std::string text;
  text.reserve(tokens.text.size() + tokens.text.size() / 4);
  std::vector<Span> pieces;
  pieces.reserve(tokens.pieces.size());
  // The new text does not contain the part cut off before the first piece. So record here that the first
  // piece is not at the start.
  if (!tokens.pieces.empty() && tokens.pieces.front().begin > 0) tokens.starts_at_text = false;
  for (const Span& piece : tokens.pieces) {
    const std::size_t begin = text.size();
    rewrite(tokens.view(piece), text);
    if (text.size() > begin) pieces.push_back({begin, text.size()});
  }
  tokens.text = std::move(text);
  tokens.pieces = std::move(pieces);
}

}  // namespace tp
