#include "model/tokenizer/folded_tokens.h"

#include "model/files/json_node.h"
#include "model/tokenizer/steps/normalizer.h"
#include "model/tokenizer/text/utf8.h"

#include <cstddef>
#include <string>
#include <unordered_map>

#include <nlohmann/json.hpp>

namespace tp {
namespace {

constexpr const char* kBlank = "\xEE\x80\x80";  // U+E000 stands for a text of one blank

// The steps of the original, as the `tokenizers` library names them.
Normalizer folding() {
  const auto replace = [](const char* kind, const char* pattern, const char* content) {
    return nlohmann::json{{"type", "Replace"}, {"pattern", {{kind, pattern}}}, {"content", content}};
  };
  nlohmann::json steps = nlohmann::json::array();
  for (const char* const type : {"NFKC", "NFD", "StripAccents", "Lowercase"})
    steps.push_back({{"type", type}});
  steps.push_back(replace("Regex", "[ \\t\\r\\n]+", " "));
  steps.push_back(replace("Regex", "^ $", kBlank));
  steps.push_back({{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}});
  steps.push_back(replace("String", kBlank, " "));
  const nlohmann::json sequence = {{"type", "Sequence"}, {"normalizers", steps}};
  return Normalizer::from_json(JsonNode(sequence, "the folding of tokens"));
}

}  // namespace

std::vector<TokenId> folded_tokens(Tokenizer tokenizer) {
  tokenizer.pad_to(tokenizer.vocab_size());  // ids without a token are empty texts
  const Normalizer fold = folding();
  std::unordered_map<std::string, TokenId> ids;
  std::vector<TokenId> folded(tokenizer.vocab_size());
  for (std::size_t i = 0; i < folded.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const std::string text = tokenizer.decode({&id, 1}, SkipSpecial::no);
    std::string key;
    if (text.find(utf8::kReplacement) != text.npos)
      key = tokenizer.id_to_token(id);
    else
      key = fold(text);
    const auto number = static_cast<TokenId>(ids.size());
    folded[i] = ids.emplace(key.empty() ? text : key, number).first->second;
  }
  return folded;
}

}  // namespace tp
