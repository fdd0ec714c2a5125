#include "model/tokenizer/models/sentencepiece_model.h"

#include "model/tokenizer/models/scored_merges.h"
#include "model/tokenizer/text/utf8.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <limits>
#include <unordered_set>

#include <sentencepiece_processor.h>

namespace tp {
namespace {

using Algorithm = SentencePieceFile::Algorithm;
using Piece = SentencePieceFile::Piece;

// Control tokens, bytes and the unknown token do not occur in texts.
bool is_in_texts(TokenType type) {
  return type == TokenType::normal || type == TokenType::user_defined || type == TokenType::unused;
}

Vocabulary vocabulary_of(const SentencePieceFile& file) {
  std::vector<std::pair<std::string_view, TokenId>> tokens;
  for (const Piece& piece : file.pieces) tokens.emplace_back(piece.text, static_cast<TokenId>(tokens.size()));
  return Vocabulary(tokens);
}

bool is_one_character(std::string_view text) {
  return !text.empty() && utf8::first_character(text).length == text.size();
}

bool is_made_of_two(std::string_view text, const std::unordered_set<std::string_view>& texts) {
  for (std::size_t cut = 1; cut < text.size(); ++cut)
    if (texts.contains(text.substr(0, cut)) && texts.contains(text.substr(cut))) return true;
  return false;
}

Bpe bpe_of(const SentencePieceFile& file) {
  Vocabulary vocabulary = vocabulary_of(file);
  std::vector<ScoredPiece> tokens;
  for (const Piece& piece : file.pieces)
    tokens.push_back(
        {piece.text, piece.score, is_in_texts(piece.type) && piece.type != TokenType::user_defined});
  const bool merges = file.algorithm == Algorithm::bpe;
  return Bpe(std::move(vocabulary), merges ? scored_merges(tokens) : std::vector<Bpe::Merge>(),
             {.unknown = file.unknown, .fuse_unknown = true, .byte_fallback = file.byte_fallback});
}

// Computes sums with the library's rounding.
Unigram unigram_of(const SentencePieceFile& file) {
  float lowest = std::numeric_limits<float>::max();
  float highest =
      std::numeric_limits<float>::min();  // the smallest positive float, the library's initial value
  for (const Piece& piece : file.pieces) {
    if (piece.type != TokenType::normal) continue;
    lowest = std::min(lowest, piece.score);
    highest = std::max(highest, piece.score);
  }
  std::vector<double> scores;
  for (const Piece& piece : file.pieces) {
    if (piece.type == TokenType::normal)
      scores.push_back(piece.score);
    else if (piece.type == TokenType::user_defined)
      scores.push_back(static_cast<float>(piece.text.size()) * highest - 0.1);
    else
      scores.push_back(Unigram::kNotInTexts);
  }
  return Unigram(vocabulary_of(file), std::move(scores),
                 {.unknown = file.unknown,
                  .byte_fallback = file.byte_fallback,
                  .lowest_score = lowest,
                  .single_precision = true});
}

}  // namespace

void SentencePieceModel::Library::encode(std::string_view piece, std::vector<TokenId>& out) const {
  std::vector<int> ids;
  // SentencePiece that is built without Abseil has a string_view of its own.
  const auto status = processor->Encode({piece.data(), piece.size()}, &ids);
  require<RequestError>(
      status.ok(), "cannot tokenize a text of {} bytes: SentencePiece says: {}; split it into smaller parts",
      piece.size(), status.ToString());
  out.insert(out.end(), ids.begin(), ids.end());
}

bool SentencePieceModel::can_encode(const SentencePieceFile& file) {
  if (file.algorithm == Algorithm::unigram) return true;
  if (file.algorithm != Algorithm::bpe && file.algorithm != Algorithm::character) return false;
  std::unordered_set<std::string_view> characters;
  std::unordered_set<std::string_view> texts;
  for (const Piece& piece : file.pieces) {
    if (!utf8::is_valid(piece.text)) return false;
    if (is_in_texts(piece.type)) texts.insert(piece.text);
    if (is_in_texts(piece.type) && is_one_character(piece.text)) characters.insert(piece.text);
    // A reserved token of one character would be mistaken for the character.
    if (!is_in_texts(piece.type) && is_one_character(piece.text)) return false;
  }
  return std::ranges::all_of(file.pieces, [&](const Piece& piece) {
    if (piece.type == TokenType::unused) return !is_made_of_two(piece.text, texts);
    if (piece.type != TokenType::normal) return true;
    for (const auto [character, bytes] : utf8::Characters(piece.text))
      if (!characters.contains(bytes)) return false;
    return true;
  });
}

SentencePieceModel::Encoder SentencePieceModel::encoder_of(const SentencePieceFile& file) {
  if (!can_encode(file)) return Library{file.processor, vocabulary_of(file)};
  if (file.algorithm == Algorithm::unigram) return unigram_of(file);
  return bpe_of(file);
}

SentencePieceModel::SentencePieceModel(const SentencePieceFile& file) : encoder_(encoder_of(file)) {
  for (const Piece& piece : file.pieces) {
    if (piece.type == TokenType::user_defined && std::holds_alternative<Bpe>(encoder_) && !piece.text.empty())
      uncut_.insert(piece.text, scores_.size());
    scores_.push_back(piece.score);
    types_.push_back(piece.type);
  }
}

void SentencePieceModel::encode(std::string_view text, std::vector<TokenId>& out) const {
  const auto encode_rest = [&](std::string_view rest) {
    if (!rest.empty()) std::visit([&](const auto& encoder) { encoder.encode(rest, out); }, encoder_);
  };
  std::size_t done = 0;
  for (std::size_t place = 0; place < text.size();) {
    const std::optional<StringSet::Match> token = uncut_.longest_prefix_of(text.substr(place));
    if (!token) {
      ++place;
      continue;
    }
    encode_rest(text.substr(done, place - done));
    out.push_back(static_cast<TokenId>(token->value));
    done = place += token->length;
  }
  encode_rest(text.substr(done));
}

const Vocabulary& SentencePieceModel::vocabulary() const {
  return std::visit([](const auto& encoder) -> const Vocabulary& { return encoder.vocabulary(); }, encoder_);
}

}  // namespace tp
