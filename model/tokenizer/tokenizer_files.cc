#include "model/tokenizer/tokenizer_files.h"

#include "model/files/has_file.h"
#include "model/tokenizer/gguf_vocabulary.h"
#include "model/tokenizer/rwkv_vocabulary.h"
#include "model/tokenizer/sentencepiece_parts.h"
#include "model/tokenizer/tekken_json.h"
#include "model/tokenizer/tiktoken_file.h"
#include "model/tokenizer/tokenizer_config.h"
#include "model/tokenizer/tokenizer_json.h"
#include "model/tokenizer/vocabulary_files.h"
#include "model/tokenizer/word_piece_file.h"
#include "model/weights/gguf/gguf_files.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <iterator>

#include <nlohmann/json.hpp>

namespace tp {
namespace {

namespace fs = std::filesystem;

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

constexpr const char* kTekken = "tekken.json";

TokenizerParts parts_from_json_file(const fs::path& file) {
  const nlohmann::json document = read_json_file(file);
  const JsonNode json(document, file);
  return file.filename() == kTekken ? parts_from_tekken(json) : parts_from_json(json);
}

// A format of tokenizers in a folder.
struct Format {
  const char* file;
  TokenizerParts (*read)(const fs::path& file);
  const char* file_beside = nullptr;  // must be there, too

  bool is_in(const fs::path& folder) const {
    return has_file(folder / file) && (!file_beside || has_file(folder / file_beside));
  }
};

// The first one in a folder counts.
constexpr Format kFormats[] = {{"tokenizer.json", parts_from_json_file},
                               {kTekken, parts_from_json_file},
                               {kTiktokenFile, parts_from_tiktoken},
                               {kRwkvVocabularyFile, parts_from_rwkv_vocabulary},
                               {"tokenizer.model", parts_from_sentencepiece},
                               {"spiece.model", parts_from_t5_file},
                               {"source.spm", parts_from_marian_file, "vocab.json"},
                               {"vocab.json", parts_from_vocabulary_files, "merges.txt"},
                               {"vocab.txt", parts_from_word_piece_file}};

// Returns nullptr if the folder contains none.
const Format* find_format(const fs::path& folder) {
  const auto* const found =
      std::ranges::find_if(kFormats, [&](const Format& format) { return format.is_in(folder); });
  return found == std::end(kFormats) ? nullptr : found;
}

TokenizerParts parts_from_folder(const fs::path& folder) {
  const Format* const format = find_format(folder);
  require<CheckpointError>(
      format != nullptr,
      "{}: cannot load a tokenizer: expected tokenizer.json, tekken.json, tiktoken.model, "
      "rwkv_vocab_v20230424.txt, tokenizer.model, spiece.model, vocab.json with merges.txt or source.spm, or "
      "vocab.txt in this folder, "
      "found none; get them from where the model comes from",
      folder.string());
  return format->read(folder / format->file);
}

TokenizerParts parts_from_gguf(const fs::path& file) {
  const GgufFiles files(file);
  const std::optional<EmbeddedVocabulary> vocabulary = gguf_vocabulary(files.metadata());
  require<CheckpointError>(
      vocabulary.has_value(),
      "{}: cannot load a tokenizer: expected a vocabulary in the file, found none; convert "
      "the checkpoint to GGUF together with its tokenizer",
      files.name());
  return parts_from_vocabulary(*vocabulary, files.name());
}

}  // namespace

bool holds_tokenizer(const fs::path& model) {
  if (const std::optional<fs::path> gguf = find_gguf(model)) {
    const GgufFiles files(*gguf);
    return !unsupported_tokenizer(files.metadata()) && gguf_vocabulary(files.metadata()).has_value();
  }
  return find_format(model) != nullptr;
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
