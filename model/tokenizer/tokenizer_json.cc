#include "model/tokenizer/tokenizer_json.h"

#include "model/tokenizer/models/bpe_json.h"
#include "model/tokenizer/models/unigram_json.h"
#include "model/tokenizer/models/word_json.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

// Files of the library's first versions lack the type. Only BPE has merges, and only WordPiece has this
// prefix.
std::string type_of_model(const JsonNode& json) {
  if (!json.has("type") && json.has("merges")) return "BPE";
  if (!json.has("type") && json.has("continuing_subword_prefix")) return "WordPiece";
  return json.type();
}

TokenModel model_from_json(const JsonNode& json) {
  const std::string type = type_of_model(json);
  if (type == "BPE") return bpe_from_json(json);
  if (type == "Unigram") return unigram_from_json(json);
  if (type == "WordPiece") return word_piece_from_json(json);
  if (type == "WordLevel") return word_level_from_json(json);
  json.fail_unsupported_type("BPE, Unigram, WordPiece or WordLevel");
}

}  // namespace

TokenizerParts parts_from_json(const JsonNode& json) {
  TokenizerParts parts{.model = model_from_json(json.at("model"))};
  if (const auto part = json.find("normalizer")) parts.normalizer = Normalizer::from_json(*part);
  if (const auto part = json.find("pre_tokenizer")) parts.pre_tokenizer = PreTokenizer::from_json(*part);
  if (const auto part = json.find("decoder")) parts.decoder = TokenDecoder::from_json(*part);
  if (const auto part = json.find("added_tokens"))
    parts.added = AddedTokens::from_json(*part, parts.vocabulary(), parts.normalizer);
  if (const auto part = json.find("post_processor")) {
    parts.post_processor =
        post_processor_from_json(*part, [&parts](TokenId id) { return parts.has_token(id); });
  }
  return parts;
}

}  // namespace tp
