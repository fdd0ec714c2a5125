#include "model/tokenizer/embedded_vocabulary.h"

#include "model/tokenizer/models/scored_merges.h"
#include "model/tokenizer/rwkv_vocabulary.h"
#include "model/tokenizer/steps/bert_normalizer.h"
#include "model/tokenizer/steps/named_pre_tokenizer.h"
#include "model/tokenizer/steps/sentencepiece_normalizer.h"
#include "model/tokenizer/text/sentencepiece_file.h"
#include "model/tokenizer/text/utf8.h"
#include "tp/internal/require.h"

#include <cmath>
#include <unordered_set>

#include <nlohmann/json.hpp>

namespace tp {
namespace {

using Scheme = EmbeddedVocabulary::Scheme;
using nlohmann::json;

void check_size(const char* what, std::size_t size, std::size_t expected, const std::string& source) {
  require<CheckpointError>(size == expected,
                           "{}: the vocabulary has {} {}, expected {}, one for every token; the file may be "
                           "damaged, get it again",
                           source, size, what, expected);
}

void check_id(const char* what, std::optional<TokenId> id, std::size_t size, const std::string& source) {
  require<CheckpointError>(
      !id || (*id >= 0 && static_cast<std::size_t>(*id) < size),
      "{}: the {} token has id {}, expected one below {}; the file may be damaged, get it "
      "again",
      source, what, id.value_or(0), size);
}

void check(const EmbeddedVocabulary& vocabulary, const std::string& source) {
  const std::size_t size = vocabulary.tokens.size();
  require<CheckpointError>(
      size > 0 && size < static_cast<std::size_t>(kMaxVocabularySize),
      "{}: the vocabulary has {} tokens, expected 1 to {}; the file may be damaged, get it "
      "again",
      source, size, kMaxVocabularySize - 1);
  if (!vocabulary.types.empty()) check_size("types", vocabulary.types.size(), size, source);
  if (vocabulary.scheme == Scheme::sentencepiece_bpe || vocabulary.scheme == Scheme::unigram)
    check_size("scores", vocabulary.scores.size(), size, source);
  for (std::size_t id = 0; id < size; ++id) {
    require<CheckpointError>(
        utf8::is_valid(vocabulary.tokens[id]),
        "{}: token {} is not UTF-8, expected text; the file may be damaged, get it again", source, id);
  }
  for (const float score : vocabulary.scores) {
    require<CheckpointError>(!std::isnan(score),
                             "{}: a token's score is not a number, expected a logarithm; the file may be "
                             "damaged, get it again",
                             source);
  }
  check_id("beginning-of-sequence", vocabulary.bos, size, source);
  check_id("end-of-sequence", vocabulary.eos, size, source);
  check_id("unknown", vocabulary.unknown, size, source);
}

TokenType type_of(const EmbeddedVocabulary& vocabulary, std::size_t id) {
  return id < vocabulary.types.size() ? vocabulary.types[id] : TokenType::normal;
}

// Leaves out unused tokens, which only fill up the vocabulary and have no text.
Vocabulary text_vocabulary(const EmbeddedVocabulary& vocabulary) {
  std::vector<std::pair<std::string_view, TokenId>> tokens;
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (type_of(vocabulary, id) != TokenType::unused)
      tokens.emplace_back(vocabulary.tokens[id], static_cast<TokenId>(id));
  }
  return Vocabulary(tokens);
}

AddedTokens added_tokens_of(const EmbeddedVocabulary& vocabulary) {
  const std::unordered_set<TokenId> left(vocabulary.strip_left.begin(), vocabulary.strip_left.end());
  const std::unordered_set<TokenId> right(vocabulary.strip_right.begin(), vocabulary.strip_right.end());
  std::vector<AddedToken> added;
  for (std::size_t place = 0; place < vocabulary.tokens.size(); ++place) {
    if (!is_added(vocabulary, place)) continue;
    const auto id = static_cast<TokenId>(place);
    added.push_back({.id = id,
                     .content = vocabulary.tokens[place],
                     .special = type_of(vocabulary, place) != TokenType::user_defined,
                     .lstrip = left.contains(id),
                     .rstrip = right.contains(id)});
  }
  return AddedTokens(std::move(added));
}

std::vector<Bpe::Merge> listed_merges(const EmbeddedVocabulary& embedded, const Vocabulary& vocabulary,
                                      const std::string& source) {
  std::vector<Bpe::Merge> merges;
  merges.reserve(embedded.merges.size());
  for (std::size_t i = 0; i < embedded.merges.size(); ++i) {
    const std::string& merge = embedded.merges[i];
    const std::size_t space = merge.find(' ');
    const std::string_view left = std::string_view(merge).substr(0, space);
    const std::string_view right =
        space == std::string::npos ? std::string_view() : std::string_view(merge).substr(space + 1);
    const auto left_id = vocabulary.find(left);
    const auto right_id = vocabulary.find(right);
    const auto result = vocabulary.find(std::string(left).append(right));
    const bool is_lone = embedded.merges.size() == 1 && merge.size() == 3 && space == 1;
    if (is_lone && !result && embedded.ignores_lone_merge) continue;
    require<CheckpointError>(
        left_id && right_id && result,
        "{}: merge {} is '{}', expected two tokens of the vocabulary with a space between "
        "them, which make a third; the file may be damaged, get it again",
        source, i, merge);
    merges.push_back({*left_id, *right_id, *result, static_cast<MergeTable::Rank>(merges.size())});
  }
  return merges;
}

Normalizer normalizer_of(const json& description, const std::string& source) {
  return Normalizer::from_json(JsonNode(description, source));
}

json space_marks() { return {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}}; }

TokenizerParts listed_merge_parts(const EmbeddedVocabulary& embedded, const std::string& source) {
  std::optional<NamedPreTokenizer> named = named_pre_tokenizer(embedded.pre_tokenizer);
  require<CheckpointError>(named.has_value(), "{}: {}; use the model's tokenizer.json", source,
                           unknown_pre_tokenizer(embedded.pre_tokenizer));
  Vocabulary vocabulary = text_vocabulary(embedded);
  const std::vector<Bpe::Merge> merges = listed_merges(embedded, vocabulary, source);
  const NamedPreTokenizer::Traits& traits = named->traits;
  TokenizerParts parts{.model = Bpe(std::move(vocabulary), merges,
                                    {.unknown = embedded.unknown,
                                     .fuse_unknown = traits.marks_spaces,
                                     .byte_fallback = traits.marks_spaces,
                                     .ignore_merges = traits.ignore_merges})};
  parts.pre_tokenizer = std::move(named->pre_tokenizer);
  if (traits.marks_spaces) {
    parts.normalizer = normalizer_of(space_marks(), source);
    parts.decoder = TokenDecoder::sentencepiece(false);
    return parts;
  }
  if (traits.composes) parts.normalizer = normalizer_of({{"type", "NFC"}}, source);
  parts.decoder = TokenDecoder::byte_level();
  return parts;
}

TokenizerParts sentencepiece_parts(const EmbeddedVocabulary& embedded, const std::string& source) {
  Vocabulary vocabulary = text_vocabulary(embedded);
  std::vector<ScoredPiece> tokens;
  for (std::size_t id = 0; id < embedded.tokens.size(); ++id)
    tokens.push_back({embedded.tokens[id], embedded.scores[id], type_of(embedded, id) == TokenType::normal});
  const std::vector<Bpe::Merge> merges = scored_merges(tokens);
  TokenizerParts parts{.model =
                           Bpe(std::move(vocabulary), merges,
                               {.unknown = embedded.unknown, .fuse_unknown = true, .byte_fallback = true})};
  json normalizers = json::array();
  if (embedded.add_space_prefix) normalizers.push_back({{"type", "Prepend"}, {"prepend", "\u2581"}});
  normalizers.push_back(space_marks());
  parts.normalizer = normalizer_of({{"type", "Sequence"}, {"normalizers", normalizers}}, source);
  parts.decoder = TokenDecoder::sentencepiece(embedded.add_space_prefix);
  return parts;
}

// SentencePiece's own model and normalizer.
TokenizerParts unigram_parts(const EmbeddedVocabulary& embedded, const std::string& source) {
  require<CheckpointError>(
      embedded.unknown.has_value(),
      "{}: expected an unknown token in addition to the scores of pieces, found none; use the "
      "model's tokenizer.json",
      source);
  SentencePieceFile file{.algorithm = SentencePieceFile::Algorithm::unigram,
                         .unknown = *embedded.unknown,
                         .character_map = embedded.character_map,
                         .adds_space = embedded.add_space_prefix,
                         .collapses_spaces = embedded.collapses_spaces};
  for (std::size_t id = 0; id < embedded.tokens.size(); ++id)
    file.pieces.push_back({embedded.tokens[id], embedded.scores[id], type_of(embedded, id)});
  TokenizerParts parts{.model = SentencePieceModel(file), .normalizes_added = false};
  parts.normalizer = Normalizer(SentencePieceNormalizer(file, source));
  parts.decoder = TokenDecoder::sentencepiece(file.adds_space || file.collapses_spaces);
  return parts;
}

// vocab.txt's spelling of a token: "##ing" continues a word.
std::string word_piece_of(const EmbeddedVocabulary& embedded, std::size_t id) {
  constexpr std::string_view kBegin = "\u2581";
  const std::string& token = embedded.tokens[id];
  if (is_added(embedded, id)) return token;
  return token.starts_with(kBegin) ? token.substr(kBegin.size()) : "##" + token;
}

TokenizerParts word_piece_parts(const EmbeddedVocabulary& embedded, const std::string& source) {
  require<CheckpointError>(embedded.unknown.has_value(),
                           "{}: expected an unknown token among WordPiece's tokens, found none; use the "
                           "model's tokenizer.json",
                           source);
  std::vector<std::string> texts;
  for (std::size_t id = 0; id < embedded.tokens.size(); ++id) texts.push_back(word_piece_of(embedded, id));
  std::vector<std::pair<std::string_view, TokenId>> tokens;
  for (std::size_t id = 0; id < texts.size(); ++id) {
    if (type_of(embedded, id) != TokenType::unused) tokens.emplace_back(texts[id], static_cast<TokenId>(id));
  }
  return {.model = WordPiece(Vocabulary(tokens), {.unknown = *embedded.unknown}),
          .normalizer = Normalizer(BertNormalizer({})),
          .pre_tokenizer = PreTokenizer::bert(),
          .decoder = TokenDecoder::word_piece()};
}

// Control tokens are found in unprocessed text only.
TokenizerParts rwkv_parts(const EmbeddedVocabulary& embedded, const std::string& source) {
  std::vector<std::pair<std::string_view, TokenId>> tokens;
  for (std::size_t id = 0; id < embedded.tokens.size(); ++id) {
    if (type_of(embedded, id) == TokenType::normal)
      tokens.emplace_back(embedded.tokens[id], static_cast<TokenId>(id));
  }
  return longest_match_parts(tokens, source);
}

TokenizerParts parts_of_scheme(const EmbeddedVocabulary& vocabulary, const std::string& source) {
  switch (vocabulary.scheme) {
    case Scheme::listed_merges:
      return listed_merge_parts(vocabulary, source);
    case Scheme::sentencepiece_bpe:
      return sentencepiece_parts(vocabulary, source);
    case Scheme::unigram:
      return unigram_parts(vocabulary, source);
    case Scheme::longest_match:
      return rwkv_parts(vocabulary, source);
    case Scheme::word_piece:
      return word_piece_parts(vocabulary, source);
  }
  throw_error<CheckpointError>("{}: the vocabulary has an unknown scheme", source);
}

// "[CLS] first [SEP] second [SEP]", or RoBERTa's "<s> first </s></s> second </s>". Only a single separator
// divides types.
std::vector<PostProcessor::PairPiece> pair_of(const EmbeddedVocabulary& vocabulary) {
  using Piece = PostProcessor::PairPiece;
  if (vocabulary.pair_separators == 0 || !vocabulary.bos || !vocabulary.eos) return {};
  const std::uint8_t second = vocabulary.pair_separators == 1 ? 1 : 0;
  std::vector<Piece> pair = {{.token = *vocabulary.bos}, {.kind = Piece::Kind::first_text}};
  pair.insert(pair.end(), vocabulary.pair_separators, Piece{.token = *vocabulary.eos});
  pair.push_back({.kind = Piece::Kind::second_text, .type = second});
  pair.push_back({.token = *vocabulary.eos, .type = second});
  return pair;
}

}  // namespace

bool is_added(const EmbeddedVocabulary& vocabulary, std::size_t id) {
  const TokenType type = type_of(vocabulary, id);
  return type == TokenType::control || type == TokenType::unknown || type == TokenType::user_defined;
}

TokenizerParts parts_from_vocabulary(const EmbeddedVocabulary& vocabulary, const std::string& source) {
  check(vocabulary, source);
  TokenizerParts parts = parts_of_scheme(vocabulary, source);
  parts.added = added_tokens_of(vocabulary);
  parts.bos = vocabulary.bos;
  parts.eos = vocabulary.eos;
  if (vocabulary.add_bos && vocabulary.bos) parts.post_processor.before = {*vocabulary.bos};
  if (vocabulary.add_eos && vocabulary.eos) parts.post_processor.after = {*vocabulary.eos};
  parts.post_processor.pair = pair_of(vocabulary);
  return parts;
}

}  // namespace tp
