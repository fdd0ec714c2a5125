#include "model/tokenizer/vocabulary_files.h"

#include "model/files/has_file.h"
#include "model/files/json_node.h"
#include "model/tokenizer/embedded_vocabulary.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <fstream>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

namespace fs = std::filesystem;

// The control token of these classes, unless a configuration names a different token.
constexpr std::string_view kEndOfText = "<|endoftext|>";

// The class in tokenizer_config.json; empty if it is missing.
std::string tokenizer_class(const fs::path& folder) {
  const fs::path file = folder / "tokenizer_config.json";
  if (!has_file(file)) return {};
  const nlohmann::json document = read_json_file(file);
  return JsonNode(document, file).string_or("tokenizer_class", "");
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

// RoBERTa and BART put texts between <s> and </s>. Files without a class belong to them if they contain
// <mask>.
void put_between_ends(const std::string& type, EmbeddedVocabulary& vocabulary) {
  const auto find = [&](std::string_view text) {
    return static_cast<std::size_t>(std::ranges::find(vocabulary.tokens, text) - vocabulary.tokens.begin());
  };
  const std::size_t none = vocabulary.tokens.size();
  const bool is_named =
      type.starts_with("Roberta") || type.starts_with("Bart") || type.starts_with("Longformer");
  const bool is_like_it = type.empty() && find("<mask>") != none;
  if ((!is_named && !is_like_it) || find("<s>") == none || find("</s>") == none) return;
  for (const char* text : {"<s>", "</s>", "<pad>", "<unk>", "<mask>"}) {
    if (const std::size_t id = find(text); id != none) vocabulary.types[id] = TokenType::control;
  }
  vocabulary.bos = static_cast<TokenId>(find("<s>"));
  vocabulary.eos = static_cast<TokenId>(find("</s>"));
  vocabulary.add_bos = vocabulary.add_eos = true;
}

}  // namespace

TokenizerParts parts_from_vocabulary_files(const fs::path& folder) {
  EmbeddedVocabulary vocabulary;
  const std::string type = tokenizer_class(folder);
  vocabulary.pre_tokenizer = type.starts_with("Qwen2Tokenizer") ? "qwen2" : "gpt-2";
  read_vocabulary(folder / "vocab.json", vocabulary);
  put_between_ends(type, vocabulary);
  read_merges(folder / "merges.txt", vocabulary);
  return parts_from_vocabulary(std::move(vocabulary), folder.string());
}

}  // namespace tp
