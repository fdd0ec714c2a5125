#include "model/tokenizer/models/word_json.h"

#include "model/tokenizer/models/vocabulary_json.h"

#include <fmt/format.h>

namespace tp {
namespace {

TokenId unknown_from_json(const JsonNode& json, const Vocabulary& vocabulary, const std::string& usual_name) {
  const std::string name = json.string_or("unk_token", usual_name);
  const std::optional<TokenId> id = vocabulary.find(name);
  if (!id)
    json.fail(fmt::format("'{}' for unknown words, which is not a token", name), "a token of the vocabulary");
  return *id;
}

}  // namespace

WordPiece word_piece_from_json(const JsonNode& json) {
  Vocabulary vocabulary = vocabulary_from_json(json.at("vocab"));
  WordPiece::Options options;
  options.unknown = unknown_from_json(json, vocabulary, "[UNK]");
  options.continuing_prefix = json.string_or("continuing_subword_prefix", options.continuing_prefix);
  options.max_characters = json.size_or("max_input_chars_per_word", options.max_characters);
  return WordPiece(std::move(vocabulary), std::move(options));
}

WordLevel word_level_from_json(const JsonNode& json) {
  Vocabulary vocabulary = vocabulary_from_json(json.at("vocab"));
  const TokenId unknown = unknown_from_json(json, vocabulary, "<unk>");
  return WordLevel(std::move(vocabulary), unknown);
}

}  // namespace tp
