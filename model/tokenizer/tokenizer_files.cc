#include "model/tokenizer/tokenizer_files.h"

#include "model/files/has_file.h"
#include "model/tokenizer/gguf_vocabulary.h"
#include "model/tokenizer/seq2seq_files.h"
#include "model/tokenizer/steps/sentencepiece_normalizer.h"
#include "model/tokenizer/tekken_json.h"
#include "model/tokenizer/text/sentencepiece_file.h"
#include "model/tokenizer/tiktoken_file.h"
#include "model/tokenizer/tokenizer_config.h"
#include "model/tokenizer/tokenizer_json.h"
#include "model/tokenizer/vocabulary_files.h"
#include "model/tokenizer/word_piece_file.h"
#include "model/weights/gguf/gguf_files.h"
#include "tp/internal/require.h"

#include <nlohmann/json.hpp>

namespace tp {
namespace {

namespace fs = std::filesystem;

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

constexpr const char* kTekken = "tekken.json";

bool is_tekken(const fs::path& file) { return file.filename() == kTekken; }

TokenizerParts parts_from_json_file(const fs::path& file) {
  const nlohmann::json document = read_json_file(file);
  const JsonNode json(document, file);
  return is_tekken(file) ? parts_from_tekken(json) : parts_from_json(json);
}

// Texts begin with BOS if the file has one, as in Llama and Gemma. tokenizer_config.json may override this.
TokenizerParts parts_from_sentencepiece(const fs::path& path) {
  const SentencePieceFile file = read_sentencepiece_file(path);
  TokenizerParts parts{.model = SentencePieceModel(file)};
  if (SentencePieceModel::can_encode(file))
    parts.normalizer = Normalizer(SentencePieceNormalizer(file, path.string()));
  parts.decoder =
      TokenDecoder::sentencepiece((file.adds_space || file.collapses_spaces) && !file.space_behind);
  parts.bos = file.bos;
  parts.eos = file.eos;
  if (file.bos) parts.post_processor.before = {*file.bos};
  return parts;
}

bool has_vocabulary_files(const fs::path& folder) {
  return has_file(folder / "vocab.json") && has_file(folder / "merges.txt");
}

TokenizerParts parts_from_folder(const fs::path& folder) {
  if (has_file(folder / "tokenizer.json")) return parts_from_json_file(folder / "tokenizer.json");
  if (has_file(folder / kTekken)) return parts_from_json_file(folder / kTekken);
  if (has_file(folder / kTiktokenFile)) return parts_from_tiktoken(folder / kTiktokenFile);
  if (has_file(folder / "tokenizer.model")) return parts_from_sentencepiece(folder / "tokenizer.model");
  if (has_file(folder / kT5File)) return parts_from_t5_file(folder);
  if (has_marian_files(folder)) return parts_from_marian_files(folder);
  if (has_vocabulary_files(folder)) return parts_from_vocabulary_files(folder);
  require<CheckpointError>(
      has_file(folder / kWordPieceFile),
      "{}: cannot load a tokenizer: expected tokenizer.json, tekken.json, tiktoken.model, "
      "tokenizer.model, spiece.model, vocab.json with merges.txt or source.spm, or vocab.txt in this folder, "
      "found none; get them from where the model comes from",
      folder.string());
  return parts_from_word_piece_file(folder);
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
  if (const std::optional<fs::path> gguf = find_gguf(model)) {
    const GgufFiles files(*gguf);
    return !unsupported_tokenizer(files.metadata()) && gguf_vocabulary(files.metadata()).has_value();
  }
  return has_file(model / "tokenizer.json") || has_file(model / kTekken) || has_file(model / kTiktokenFile) ||
         has_file(model / "tokenizer.model") || has_file(model / kT5File) || has_marian_files(model) ||
         has_vocabulary_files(model) || has_file(model / kWordPieceFile);
}

TokenizerFlaws find_tokenizer_flaws(const fs::path& model) {
  const std::optional<fs::path> gguf = find_gguf(model);
  if (!gguf) return {};
  const GgufFiles files(*gguf);
  return {unsupported_tokenizer(files.metadata()), unknown_token_ids(files.metadata())};
}

TokenizerParts load_tokenizer_parts(const fs::path& path) {
  if (const std::optional<fs::path> gguf = find_gguf(path)) return parts_from_gguf(*gguf);
  if (path.extension() == ".model" && !is_folder(path))
    return path.filename() == kTiktokenFile ? parts_from_tiktoken(path) : parts_from_sentencepiece(path);
  const bool in_folder = is_folder(path);
  TokenizerParts parts = in_folder ? parts_from_folder(path) : parts_from_json_file(path);
  apply_tokenizer_config(in_folder ? path : path.parent_path(), parts);
  return parts;
}

}  // namespace tp
