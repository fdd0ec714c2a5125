#include "model/tokenizer/seq2seq_files.h"

#include "model/files/has_file.h"
#include "model/files/json_node.h"
#include "model/tokenizer/models/renumbered_model.h"
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
  return {.id = id,
          .content = std::move(content),
          .special = true,
          .lstrip = false,
          .rstrip = false,
          .single_word = false,
          .normalized = false};
}

Normalizer normalizer_of_pieces(const SentencePieceFile& file, const fs::path& path) {
  return SentencePieceModel::can_encode(file) ? Normalizer(SentencePieceNormalizer(file, path.string()))
                                              : Normalizer();
}

TokenDecoder decoder_of_pieces(const SentencePieceFile& file) {
  return TokenDecoder::sentencepiece((file.adds_space || file.collapses_spaces) && !file.space_behind);
}

// The number of sentinels. Throws CheckpointError if the folder's tokenizer has a different class, because
// that has different additions.
std::size_t t5_sentinels(const fs::path& folder) {
  constexpr std::size_t kUsual = 100;
  const fs::path file = folder / "tokenizer_config.json";
  if (!has_file(file)) return kUsual;
  const nlohmann::json document = read_json_file(file);
  const JsonNode config(document, file);
  const std::string type = config.string_or("tokenizer_class", "T5Tokenizer");
  require<CheckpointError>(
      type.starts_with("T5Tokenizer"),
      "{}: cannot load the tokenizer of {}: expected the class T5Tokenizer, found {}; get "
      "the model's tokenizer.json",
      file.string(), kT5File, type);
  return config.count_or("extra_ids", kUsual);
}

Vocabulary read_marian_vocabulary(const fs::path& file) {
  const nlohmann::json document = read_json_file(file);
  const JsonNode json(document, file);
  std::vector<std::pair<std::string_view, TokenId>> tokens;
  std::vector<bool> seen;
  json.for_each_member([&](const std::string& text, const nlohmann::json&) {
    const auto id = static_cast<std::size_t>(json.at(text).integer_below(kMaxVocabularySize - 1));
    if (id >= seen.size()) seen.resize(id + 1);
    if (seen[id])
      json.fail(fmt::format("id {} a second time, for '{}'", id, text), "a different id for every token");
    seen[id] = true;
    tokens.emplace_back(text, static_cast<TokenId>(id));
  });
  return Vocabulary(tokens);
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
    const std::optional<std::string_view> text = vocabulary.text_of(id);
    if (!text) continue;
    const bool is_language = text->size() > 4 && text->starts_with(">>") && text->ends_with("<<");
    if (is_language || *text == "</s>" || *text == "<unk>" || *text == "<pad>")
      tokens.push_back(control_token(id, std::string(*text)));
  }
  return tokens;
}

}  // namespace

TokenizerParts parts_from_t5_file(const fs::path& folder) {
  const std::size_t sentinels = t5_sentinels(folder);
  const fs::path path = folder / kT5File;
  const SentencePieceFile file = read_sentencepiece_file(path);
  TokenizerParts parts{.model = SentencePieceModel(file)};
  parts.normalizer = normalizer_of_pieces(file, path);
  parts.decoder = decoder_of_pieces(file);
  parts.eos = file.eos;
  if (file.eos) parts.post_processor.after = {*file.eos};
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

bool has_marian_files(const fs::path& folder) {
  return has_file(folder / "source.spm") && has_file(folder / "vocab.json");
}

TokenizerParts parts_from_marian_files(const fs::path& folder) {
  const fs::path path = folder / "source.spm";
  const fs::path names = folder / "vocab.json";
  const SentencePieceFile file = read_sentencepiece_file(path);
  Vocabulary vocabulary = read_marian_vocabulary(names);
  const TokenId unknown = marian_token(vocabulary, "<unk>", names);
  const TokenId eos = marian_token(vocabulary, "</s>", names);
  std::vector<AddedToken> added = marian_control_tokens(vocabulary);
  TokenizerParts parts{.model = RenumberedModel(SentencePieceModel(file), std::move(vocabulary), unknown)};
  parts.normalizer = normalizer_of_pieces(file, path);
  parts.added = AddedTokens(std::move(added), parts.normalizer);
  parts.decoder = decoder_of_pieces(file);
  parts.eos = eos;
  parts.post_processor.after = {eos};
  return parts;
}

}  // namespace tp
