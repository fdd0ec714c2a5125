#pragma once

#include "model/tokenizer/steps/pre_tokens.h"

namespace tp {

// Replaces every piece by what `rewrite(piece, out)` appends for it.
template <class Rewrite>
void rewrite_pieces(PreTokens& tokens, Rewrite&& rewrite) {
  std::string text;
  text.reserve(tokens.text.size() + tokens.text.size() / 4);
  std::vector<Span> pieces;
  pieces.reserve(tokens.pieces.size());
  // What was cut off before the first piece is forgotten here, and with it that the piece is not at the
  // start.
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
