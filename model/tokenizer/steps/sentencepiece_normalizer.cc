#include "model/tokenizer/steps/sentencepiece_normalizer.h"

#include "model/tokenizer/text/utf8.h"
#include "tp/internal/require.h"

namespace tp {

SentencePieceNormalizer::SentencePieceNormalizer(const SentencePieceFile& file, const std::string& source)
    : space_(file.marks_spaces ? "\u2581" : " "),
      adds_space_(file.adds_space),
      space_behind_(file.space_behind),
      collapses_spaces_(file.collapses_spaces) {
  if (!file.character_map.empty()) {
    map_ = PrecompiledMap::from_bytes(file.character_map);
    require<CheckpointError>(map_.has_value(),
                             "{}: the tokenizer's table of characters has {} bytes, expected a trie and its "
                             "texts; the file may be damaged: get it again",
                             source, file.character_map.size());
  }
  for (const SentencePieceFile::Piece& piece : file.pieces) {
    if (piece.type == TokenType::user_defined && !piece.text.empty()) user_defined_.insert(piece.text, 0);
  }
}

SentencePieceNormalizer::Step SentencePieceNormalizer::first_step(std::string_view text) const {
  if (const auto token = user_defined_.longest_prefix_of(text))
    return {text.substr(0, token->length), token->length};
  if (map_) {
    if (const auto match = map_->longest_prefix_of(text)) return {match->replacement, match->length};
  }
  const std::size_t length = utf8::first_character(text).length;
  return {text.substr(0, length), length};
}

// The number of leading bytes that become spaces.
std::size_t SentencePieceNormalizer::leading_spaces(std::string_view text) const {
  std::size_t size = 0;
  while (size < text.size()) {
    const Step step = first_step(text.substr(size));
    if (step.text != " ") break;
    size += step.length;
  }
  return size;
}

std::string SentencePieceNormalizer::operator()(std::string_view text) const {
  std::string out;
  if (collapses_spaces_) text.remove_prefix(leading_spaces(text));
  if (text.empty()) return out;
  out.reserve(text.size() + text.size() / 2);
  if (adds_space_ && !space_behind_) out += space_;
  bool after_space = collapses_spaces_;
  while (!text.empty()) {
    Step step = first_step(text);
    text.remove_prefix(step.length);
    while (after_space && step.text.starts_with(' ')) step.text.remove_prefix(1);
    if (step.text.empty()) continue;
    for (const char byte : step.text) {
      if (byte == ' ')
        out += space_;
      else
        out += byte;
    }
    after_space = collapses_spaces_ && step.text.ends_with(' ');
  }
  while (collapses_spaces_ && out.ends_with(space_)) out.resize(out.size() - space_.size());
  if (adds_space_ && space_behind_) out += space_;
  return out;
}

}  // namespace tp
