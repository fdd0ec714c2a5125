#include "model/tokenizer/word_piece_file.h"

#include "model/files/file_kind.h"
#include "model/files/has_file.h"
#include "model/files/json_node.h"
#include "model/tokenizer/steps/bert_normalizer.h"
#include "model/tokenizer/text/utf8.h"
#include "model/tokenizer/tokenizer_config.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <fstream>
#include <unordered_map>

#include <nlohmann/json.hpp>

namespace tp {
namespace {

namespace fs = std::filesystem;

// If a token occurs twice, transformers uses the second id.
std::unordered_map<std::string, TokenId> ids_of_lines(const fs::path& file) {
  std::ifstream stream(file);
  require<CheckpointError>(stream.good(),
                           "{}: cannot read the file: expected a token per line; check its permissions",
                           file.string());
  refuse_other_kinds(file, FileKind::text);
  std::unordered_map<std::string, TokenId> ids;
  TokenId id = 0;
  for (std::string line; std::getline(stream, line); ++id) {
    if (line.ends_with('\r')) line.pop_back();
    require<CheckpointError>(utf8::is_valid(line),
                             "{}: cannot use line {}: expected a token in UTF-8, found other bytes; {}",
                             file.string(), id + 1, JsonNode::kDamagedAdvice);
    require<CheckpointError>(id < kMaxVocabularySize,
                             "{}: cannot use the file: expected at most {} lines, found more; {}",
                             file.string(), kMaxVocabularySize, JsonNode::kDamagedAdvice);
    ids.insert_or_assign(line, id);
  }
  return ids;
}

Vocabulary vocabulary_of_lines(const fs::path& file) {
  const std::unordered_map<std::string, TokenId> ids = ids_of_lines(file);
  return Vocabulary(std::vector<std::pair<std::string_view, TokenId>>(ids.begin(), ids.end()));
}

TokenId id_of(const std::string& token, const Vocabulary& vocabulary, const fs::path& file) {
  const std::optional<TokenId> id = vocabulary.find(token);
  require<CheckpointError>(
      id.has_value(),
      "{}: cannot use the vocabulary: expected the token '{}' in it, found none; name the "
      "special tokens that it has in tokenizer_config.json",
      file.string(), token);
  return *id;
}

BertNormalizer normalizer_of(const JsonNode& config) {
  BertNormalizer::Options options;
  options.lowercase = config.boolean_or("do_lower_case", true);
  options.strip_accents = config.boolean_or("strip_accents", options.lowercase);
  options.spaces_around_chinese = config.boolean_or("tokenize_chinese_chars", true);
  return BertNormalizer(options);
}

// The special tokens: named by the configuration, else BERT's.
class SpecialTokens {
 public:
  SpecialTokens(const JsonNode& config, const Vocabulary& vocabulary, const fs::path& file)
      : config_(config), vocabulary_(vocabulary), file_(file) {}

  TokenId add(const char* key, const std::string& usual) {
    const std::string name = name_of(key, usual);
    const TokenId id = id_of(name, vocabulary_, file_);
    const auto is_same = [&](const AddedToken& token) { return token.id == id; };
    if (std::none_of(all_.begin(), all_.end(), is_same))
      all_.push_back({.id = id, .content = name, .special = true});
    return id;
  }
  void add_if_there(const char* key, const std::string& usual) {
    if (vocabulary_.find(name_of(key, usual))) add(key, usual);
  }
  const std::vector<AddedToken>& all() const { return all_; }

 private:
  std::string name_of(const char* key, const std::string& usual) const {
    const std::optional<JsonNode> token = config_.find(key);
    return token ? text_of_token(*token) : usual;
  }

  const JsonNode& config_;
  const Vocabulary& vocabulary_;
  const fs::path& file_;
  std::vector<AddedToken> all_;
};

}  // namespace

TokenizerParts parts_from_word_piece_file(const fs::path& file) {
  const fs::path config_file = file.parent_path() / "tokenizer_config.json";
  const nlohmann::json document =
      has_file(config_file) ? read_json_file(config_file) : nlohmann::json::object();
  const JsonNode config(document, config_file);

  Vocabulary vocabulary = vocabulary_of_lines(file);
  SpecialTokens special(config, vocabulary, file);
  WordPiece::Options options;
  options.unknown = special.add("unk_token", "[UNK]");
  PostProcessor around{.before = {special.add("cls_token", "[CLS]")},
                       .after = {special.add("sep_token", "[SEP]")}};
  special.add_if_there("pad_token", "[PAD]");
  special.add_if_there("mask_token", "[MASK]");

  const Normalizer normalizer(normalizer_of(config));
  return {.model = WordPiece(std::move(vocabulary), std::move(options)),
          .normalizer = normalizer,
          .pre_tokenizer = PreTokenizer::bert(),
          .added = AddedTokens(special.all(), normalizer),
          .post_processor = std::move(around),
          .decoder = TokenDecoder::word_piece()};
}

}  // namespace tp
