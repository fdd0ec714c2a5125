#include "model/tokenizer/vocabulary_files.h"

#include "model/files/file_kind.h"
#include "model/files/has_file.h"
#include "model/files/json_node.h"
#include "model/tokenizer/embedded_vocabulary.h"
#include "model/tokenizer/models/vocabulary_json.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <fstream>
#include <string_view>

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
  const Vocabulary read = vocabulary_from_json(JsonNode(document, file));
  vocabulary.tokens.resize(read.size());
  vocabulary.types.resize(read.size(), TokenType::unused);
  for (std::size_t id = 0; id < read.size(); ++id) {
    const std::optional<std::string_view> text = read.find_text(static_cast<TokenId>(id));
    if (!text) continue;
    vocabulary.tokens[id] = *text;
    vocabulary.types[id] = *text == kEndOfText ? TokenType::control : TokenType::normal;
  }
  vocabulary.bos = vocabulary.eos = read.find(kEndOfText);
}

void read_merges(const fs::path& file, EmbeddedVocabulary& vocabulary) {
  std::ifstream stream(file);
  require<CheckpointError>(stream.good(),
                           "{}: cannot read the file: expected a list of merges; check its permissions",
                           file.string());
  refuse_other_kinds(file, FileKind::text);
  bool is_first = true;
  for (std::string line; std::getline(stream, line); is_first = false) {
    if (line.ends_with('\r')) line.pop_back();
    const bool is_heading = is_first && line.starts_with("#version");
    if (!line.empty() && !is_heading) vocabulary.merges.push_back(line);
  }
}

// RoBERTa and BART put texts between <s> and </s>. Files without a class belong to them if they contain
// <mask>. Masks replace words together with the space in front.
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
  if (const std::size_t mask = find("<mask>"); mask != none)
    vocabulary.strip_left = {static_cast<TokenId>(mask)};
  vocabulary.bos = static_cast<TokenId>(find("<s>"));
  vocabulary.eos = static_cast<TokenId>(find("</s>"));
  vocabulary.add_bos = vocabulary.add_eos = true;
}

}  // namespace

TokenizerParts parts_from_vocabulary_files(const fs::path& path) {
  const fs::path folder = path.parent_path();
  EmbeddedVocabulary vocabulary;
  const std::string type = tokenizer_class(folder);
  vocabulary.pre_tokenizer = type.starts_with("Qwen2Tokenizer") ? "qwen2" : "gpt-2";
  read_vocabulary(path, vocabulary);
  put_between_ends(type, vocabulary);
  read_merges(folder / "merges.txt", vocabulary);
  return parts_from_vocabulary(vocabulary, folder.string());
}

}  // namespace tp
