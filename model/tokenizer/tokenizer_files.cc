#include "model/tokenizer/tokenizer_files.h"

#include "model/checkpoint/gguf_files.h"
#include "model/tokenizer/gguf_vocabulary.h"
#include "model/tokenizer/tokenizer_config.h"
#include "model/tokenizer/tokenizer_json.h"
#include "tp/error.h"

namespace tp {
namespace {

namespace fs = std::filesystem;

fs::path tokenizer_file(const fs::path& path) {
  std::error_code ignored;  // a path that cannot be looked at fails when it is opened, with the reason
  if (!fs::is_directory(path, ignored)) return path;
  const fs::path file = path / "tokenizer.json";
  require<CheckpointError>(
      fs::exists(file, ignored),
      "{}: cannot load a tokenizer: expected a file tokenizer.json in this folder, found none; "
      "save the tokenizer in the format of the `tokenizers` library (SentencePiece's "
      "tokenizer.model alone is not supported yet)",
      path.string());
  return file;
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
  std::error_code ignored;
  return fs::exists(model / "tokenizer.json", ignored);
}

TokenizerParts load_tokenizer_parts(const fs::path& path) {
  if (const std::optional<fs::path> gguf = find_gguf(path)) return parts_from_gguf(*gguf);
  const fs::path file = tokenizer_file(path);
  const nlohmann::json document = read_json_file(file);
  TokenizerParts parts = parts_from_json(JsonNode(document, file));
  apply_tokenizer_config(file.parent_path(), parts);
  return parts;
}

}  // namespace tp
