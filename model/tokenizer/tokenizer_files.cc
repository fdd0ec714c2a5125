#include "model/tokenizer/tokenizer_files.h"

#include "model/tokenizer/gguf_vocabulary.h"
#include "model/tokenizer/tokenizer_config.h"
#include "model/tokenizer/tokenizer_json.h"
#include "model/tokenizer/vocabulary_files.h"
#include "model/weights/checkpoint/gguf_files.h"
#include "tp/internal/require.h"

#include <nlohmann/json.hpp>

namespace tp {
namespace {

namespace fs = std::filesystem;

// A path that cannot be looked at fails when it is opened, with the reason.
bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

TokenizerParts parts_from_json_file(const fs::path& file) {
  const nlohmann::json document = read_json_file(file);
  return parts_from_json(JsonNode(document, file));
}

// Texts begin with BOS where there is one, as those of Llama and Gemma; tokenizer_config.json may say
// otherwise.
TokenizerParts parts_from_sentencepiece(const fs::path& file) {
  SentencePieceModel model(file);
  const bool strips_space = model.adds_space_prefix();
  const std::optional<TokenId> bos = model.bos();
  const std::optional<TokenId> eos = model.eos();
  TokenizerParts parts{.model = std::move(model)};
  parts.decoder = TokenDecoder::sentencepiece(strips_space);
  parts.bos = bos;
  parts.eos = eos;
  if (bos) parts.post_processor.before = {*bos};
  return parts;
}

bool has_vocabulary_files(const fs::path& folder) {
  return is_there(folder / "vocab.json") && is_there(folder / "merges.txt");
}

TokenizerParts parts_from_folder(const fs::path& folder) {
  if (is_there(folder / "tokenizer.json")) return parts_from_json_file(folder / "tokenizer.json");
  if (is_there(folder / "tokenizer.model")) return parts_from_sentencepiece(folder / "tokenizer.model");
  require<CheckpointError>(
      has_vocabulary_files(folder),
      "{}: cannot load a tokenizer: expected tokenizer.json, tokenizer.model, or vocab.json "
      "with merges.txt in this folder, found none; get them from where the model comes from",
      folder.string());
  return parts_from_vocabulary_files(folder);
}

TokenizerParts parts_from_gguf(const fs::path& file) {
  const GgufFiles files(file);
  std::optional<EmbeddedVocabulary> vocabulary = gguf_vocabulary(files.metadata());
  require<CheckpointError>(
      vocabulary.has_value(),
      "{}: cannot load a tokenizer: expected a vocabulary in the file, found none; convert "
      "the checkpoint to GGUF together with its tokenizer",
      files.name());
  return parts_from_vocabulary(std::move(*vocabulary), files.name());
}

}  // namespace

bool holds_tokenizer(const fs::path& model) {
  if (const std::optional<fs::path> gguf = find_gguf(model))
    return gguf_vocabulary(GgufFiles(*gguf).metadata()).has_value();
  return is_there(model / "tokenizer.json") || is_there(model / "tokenizer.model") ||
         has_vocabulary_files(model);
}

TokenizerParts load_tokenizer_parts(const fs::path& path) {
  if (const std::optional<fs::path> gguf = find_gguf(path)) return parts_from_gguf(*gguf);
  if (path.extension() == ".model" && !is_folder(path)) return parts_from_sentencepiece(path);
  const bool in_folder = is_folder(path);
  TokenizerParts parts = in_folder ? parts_from_folder(path) : parts_from_json_file(path);
  apply_tokenizer_config(in_folder ? path : path.parent_path(), parts);
  return parts;
}

}  // namespace tp
