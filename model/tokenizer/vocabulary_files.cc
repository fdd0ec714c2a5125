#include "model/tokenizer/vocabulary_files.h"

#include "model/tokenizer/embedded_vocabulary.h"
#include "model/weights/checkpoint/json_node.h"
#include "tp/internal/require.h"

#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

namespace fs = std::filesystem;

// The control token of these classes when no configuration names another.
constexpr std::string_view kEndOfText = "<|endoftext|>";

std::string pre_tokenizer_of(const fs::path& folder) {
  const fs::path file = folder / "tokenizer_config.json";
  if (!fs::exists(file)) return "gpt-2";
  const nlohmann::json document = read_json_file(file);
  const std::optional<JsonNode> type = JsonNode(document, file).find("tokenizer_class");
  return type && type->string().starts_with("Qwen2Tokenizer") ? "qwen2" : "gpt-2";
}

void read_vocabulary(const fs::path& file, EmbeddedVocabulary& vocabulary) {
  const nlohmann::json document = read_json_file(file);
  const JsonNode json(document, file);
  json.for_each_member([&](const std::string& text, const nlohmann::json&) {
    const auto id = static_cast<std::size_t>(json.at(text).integer_below(kMaxVocabularySize - 1));
    if (id >= vocabulary.tokens.size()) {
      vocabulary.tokens.resize(id + 1);
      vocabulary.types.resize(id + 1, TokenType::unused);
    }
    if (vocabulary.types[id] != TokenType::unused)
      json.fail(fmt::format("id {} a second time, for '{}'", id, text), "a different id for every token");
    vocabulary.tokens[id] = text;
    vocabulary.types[id] = TokenType::normal;
    if (text != kEndOfText) return;
    vocabulary.types[id] = TokenType::control;
    vocabulary.bos = vocabulary.eos = static_cast<TokenId>(id);
  });
}

void read_merges(const fs::path& file, EmbeddedVocabulary& vocabulary) {
  std::ifstream stream(file);
  require<CheckpointError>(stream.good(),
                           "{}: cannot read the file: expected a list of merges; check its permissions",
                           file.string());
  bool is_first = true;
  for (std::string line; std::getline(stream, line); is_first = false) {
    if (line.ends_with('\r')) line.pop_back();
    const bool is_heading = is_first && line.starts_with("#version");
    if (!line.empty() && !is_heading) vocabulary.merges.push_back(line);
  }
}

}  // namespace

TokenizerParts parts_from_vocabulary_files(const fs::path& folder) {
  EmbeddedVocabulary vocabulary;
  vocabulary.pre_tokenizer = pre_tokenizer_of(folder);
  read_vocabulary(folder / "vocab.json", vocabulary);
  read_merges(folder / "merges.txt", vocabulary);
  return parts_from_vocabulary(std::move(vocabulary), folder.string());
}

}  // namespace tp
