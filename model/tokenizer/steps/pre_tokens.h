#pragma once

#include "model/tokenizer/text/span.h"

#include <string>
#include <string_view>
#include <vector>

namespace tp {

// A text before the token model, and its pieces, which the model sees one at a time. Bytes between pieces
// have been removed. Pieces are ordered and never empty.
struct PreTokens {
  // Creates one piece with all of `whole`. `at_start`: the piece begins at the start of the user's text.
  PreTokens(std::string_view whole, bool at_start)
      : text(whole),
        pieces(whole.empty() ? std::vector<Span>{} : std::vector<Span>{{0, whole.size()}}),
        starts_at_text(at_start) {}

  std::string_view view(const Span& piece) const {
    return std::string_view(text).substr(piece.begin, piece.end - piece.begin);
  }

  std::string text;
  std::vector<Span> pieces;
  bool starts_at_text;
};

}  // namespace tp
