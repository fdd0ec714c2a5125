#include "model/tokenizer/models/unigram_json.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tp {

Unigram unigram_from_json(const JsonNode& json) {
  const JsonNode vocab = json.at("vocab");
  if (!vocab.is_array()) vocab.fail_type("a list");
  const nlohmann::json& list = vocab.value();
  if (list.size() > kMaxVocabularySize)
    vocab.fail(fmt::format("{} tokens", list.size()), fmt::format("at most {}", kMaxVocabularySize));
  std::vector<std::pair<std::string_view, TokenId>> tokens;
  std::vector<double> scores;
  for (const nlohmann::json& entry : list) {
    const bool is_token =
        entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_number();
    if (!is_token) vocab.elements()[tokens.size()].fail_type("a list of a token and its score");
    tokens.emplace_back(entry[0].get_ref<const std::string&>(), static_cast<TokenId>(tokens.size()));
    scores.push_back(entry[1].get<double>());
  }
  Unigram::Options options;
  options.byte_fallback = json.boolean_or("byte_fallback", false);
  if (const auto unknown = json.find("unk_id"))
    options.unknown = static_cast<TokenId>(unknown->integer_below(static_cast<std::int64_t>(list.size())));
  return Unigram(Vocabulary(tokens), std::move(scores), options);
}

}  // namespace tp
