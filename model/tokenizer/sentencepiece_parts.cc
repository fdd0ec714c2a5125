#include "model/tokenizer/sentencepiece_parts.h"

#include "model/files/file_kind.h"
#include "model/files/has_file.h"
#include "model/files/json_node.h"
#include "model/files/mapped_file.h"
#include "model/tokenizer/models/renumbered_model.h"
#include "model/tokenizer/models/vocabulary_json.h"
#include "model/tokenizer/steps/sentencepiece_normalizer.h"
#include "model/tokenizer/text/sentencepiece_file.h"
#include "tp/internal/require.h"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

namespace fs = std::filesystem;

AddedToken control_token(TokenId id, std::string content) {
  return {.id = id, .content = std::move(content), .special = true};
}

// The parts around `model`, for the texts of a SentencePiece file.
TokenizerParts parts_around(TokenModel model, const SentencePieceFile& file, const fs::path& path) {
  TokenizerParts parts{.model = std::move(model), .normalizes_added = false};
  if (SentencePieceModel::can_encode(file))
    parts.normalizer = Normalizer(SentencePieceNormalizer(file, path.string()));
  parts.decoder =
      TokenDecoder::sentencepiece((file.adds_space || file.collapses_spaces) && !file.space_behind);
  return parts;
}

// The number of sentinels. Throws CheckpointError if the folder's tokenizer has a different class, because
// that has different additions.
std::size_t t5_sentinels(const fs::path& pieces) {
  constexpr std::size_t kUsual = 100;
  const fs::path file = pieces.parent_path() / "tokenizer_config.json";
  if (!has_file(file)) return kUsual;
  const nlohmann::json document = read_json_file(file);
  const JsonNode config(document, file);
  const std::string type = config.string_or("tokenizer_class", "T5Tokenizer");
  require<CheckpointError>(
      type.starts_with("T5Tokenizer"),
      "{}: cannot load the tokenizer of {}: expected the class T5Tokenizer, found {}; get "
      "the model's tokenizer.json",
      file.string(), pieces.filename().string(), type);
  return config.count_or("extra_ids", kUsual);
}

Vocabulary read_ids(const fs::path& file) {
  const nlohmann::json document = read_json_file(file);
  return vocabulary_from_json(JsonNode(document, file));
}

TokenId marian_token(const Vocabulary& vocabulary, std::string_view token, const fs::path& file) {
  const std::optional<TokenId> id = vocabulary.find(token);
  require<CheckpointError>(id.has_value(), "{}: expected the token {}, found none; download the file again",
                           file.string(), token);
  return *id;
}

std::vector<AddedToken> marian_control_tokens(const Vocabulary& vocabulary) {
  std::vector<AddedToken> tokens;
  for (std::size_t i = 0; i < vocabulary.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const std::optional<std::string_view> text = vocabulary.find_text(id);
    if (!text) continue;
    const bool is_language = text->size() > 4 && text->starts_with(">>") && text->ends_with("<<");
    if (is_language || *text == "</s>" || *text == "<unk>" || *text == "<pad>")
      tokens.push_back(control_token(id, std::string(*text)));
  }
  return tokens;
}

SentencePieceFile read_pieces(const fs::path& path) {
  refuse_other_kinds(path, FileKind::sentencepiece);
  const MappedFile file(path);
  return read_sentencepiece({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, path);
}

}  // namespace

TokenizerParts parts_from_sentencepiece(const fs::path& path) {
  const SentencePieceFile file = read_pieces(path);
  TokenizerParts parts = parts_around(SentencePieceModel(file), file, path);
  parts.bos = file.bos;
  parts.eos = file.eos;
  if (file.bos) parts.post_processor.before = {*file.bos};
  return parts;
}

TokenizerParts parts_from_t5_file(const fs::path& path) {
  const std::size_t sentinels = t5_sentinels(path);
  const SentencePieceFile file = read_pieces(path);
  TokenizerParts parts = parts_around(SentencePieceModel(file), file, path);
  parts.eos = file.eos;
  if (file.eos) parts.post_processor.after = {*file.eos};
  const auto max = static_cast<std::size_t>(kMaxVocabularySize);
  require<CheckpointError>(
      sentinels < max && file.pieces.size() + sentinels < max,
      "{}: expected fewer than {} tokens, found {} pieces and {} of `extra_ids` in tokenizer_config.json; "
      "download both files again",
      path.string(), max, file.pieces.size(), sentinels);
  std::vector<AddedToken> added;
  for (const char* name : {"<pad>", "</s>", "<unk>"}) {
    if (const std::optional<TokenId> id = parts.vocabulary().find(name))
      added.push_back(control_token(*id, name));
  }
  for (std::size_t i = 0; i < sentinels; ++i) {
    const auto id = static_cast<TokenId>(file.pieces.size() + sentinels - 1 - i);
    added.push_back(control_token(id, fmt::format("<extra_id_{}>", i)));
    added.back().lstrip = added.back().rstrip = true;
  }
  parts.added = AddedTokens(std::move(added), parts.normalizer);
  return parts;
}

TokenizerParts parts_from_marian_file(const fs::path& path) {
  const fs::path names = path.parent_path() / "vocab.json";
  const SentencePieceFile file = read_pieces(path);
  Vocabulary vocabulary = read_ids(names);
  const TokenId unknown = marian_token(vocabulary, "<unk>", names);
  const TokenId eos = marian_token(vocabulary, "</s>", names);
  std::vector<AddedToken> added = marian_control_tokens(vocabulary);
  TokenizerParts parts =
      parts_around(RenumberedModel(SentencePieceModel(file), std::move(vocabulary), unknown), file, path);
  parts.added = AddedTokens(std::move(added), parts.normalizer);
  parts.eos = eos;
  parts.post_processor.after = {eos};
  return parts;
}

}  // namespace tp
