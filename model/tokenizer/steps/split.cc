#include "model/tokenizer/steps/split.h"

namespace tp {
namespace {

struct Part {
  Span span;
  bool is_delimiter;
};

// Divides the whole text into matches and the parts between them.
std::vector<Part> parts_of(std::string_view text, const std::vector<Span>& matches, bool invert) {
  std::vector<Part> parts;
  parts.reserve(2 * matches.size() + 1);
  std::size_t done = 0;
  for (const Span& match : matches) {
    if (match.begin > done) parts.push_back({{done, match.begin}, invert});
    parts.push_back({match, !invert});
    done = match.end;
  }
  if (done < text.size()) parts.push_back({{done, text.size()}, invert});
  return parts;
}

// Whether `part` is joined to the previous piece.
bool joins_previous(const Part* previous, const Part& part, SplitBehavior behavior) {
  if (previous == nullptr) return false;
  switch (behavior) {
    case SplitBehavior::merged_with_previous:
      return part.is_delimiter && !previous->is_delimiter;
    case SplitBehavior::merged_with_next:
      return previous->is_delimiter && !part.is_delimiter;
    case SplitBehavior::contiguous:
      return part.is_delimiter == previous->is_delimiter;
    case SplitBehavior::removed:
    case SplitBehavior::isolated:
      return false;
  }
  return false;
}

void append_pieces(const std::vector<Part>& parts, std::size_t offset, SplitBehavior behavior,
                   std::vector<Span>& pieces) {
  const Part* previous = nullptr;
  for (const Part& part : parts) {
    const bool joins = joins_previous(previous, part, behavior);
    previous = &part;
    if (part.is_delimiter && behavior == SplitBehavior::removed) continue;
    if (joins)
      pieces.back().end = offset + part.span.end;
    else
      pieces.push_back({offset + part.span.begin, offset + part.span.end});
  }
}

}  // namespace

void Split::operator()(PreTokens& tokens) const {
  std::vector<Span> pieces;
  pieces.reserve(tokens.pieces.size());
  for (const Span& piece : tokens.pieces) {
    const std::string_view text = tokens.view(piece);
    append_pieces(parts_of(text, pattern_.matches(text), invert_), piece.begin, behavior_, pieces);
  }
  // Empty matches separate their neighbours, but are not pieces.
  std::erase_if(pieces, [](const Span& piece) { return piece.empty(); });
  tokens.pieces = std::move(pieces);
}

}  // namespace tp
