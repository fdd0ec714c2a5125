#pragma once

#include "model/tokenizer/text/span.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

// A text before the token model, and its pieces, which the model sees one at a time. Bytes between pieces
// have been removed. Pieces are ordered and never empty.
struct PreTokens {
  // Creates one piece with all of `whole`.
  PreTokens(std::string_view whole, std::size_t start_size)
      : text(whole),
        pieces(whole.empty() ? std::vector<Span>{} : std::vector<Span>{{0, whole.size()}}),
        start(start_size) {}

  std::string_view view(const Span& piece) const {
    return std::string_view(text).substr(piece.begin, piece.end - piece.begin);
  }

  std::string text;
  std::vector<Span> pieces;
  std::size_t start;  // number of leading bytes that come from the first character of the user's text
};

}  // namespace tp
