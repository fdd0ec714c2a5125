#include "model/tokenizer/models/vocabulary_json.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tp {

Vocabulary vocabulary_from_json(const JsonNode& json) {
  std::vector<std::pair<std::string_view, TokenId>> tokens;
  std::vector<bool> taken;
  json.for_each_member([&](const std::string& text, const nlohmann::json& value) {
    const bool is_id = value.is_number_unsigned() && value.get<std::uint64_t>() < kMaxVocabularySize;
    if (!is_id) json.at(text).integer_below(kMaxVocabularySize);  // throws with the place in the file
    const auto id = value.get<std::size_t>();
    if (id >= taken.size()) taken.resize(id + 1);
    if (taken[id])
      json.fail(fmt::format("id {} a second time, for '{}'", id, text), "a different id for every token");
    taken[id] = true;
    tokens.emplace_back(text, static_cast<TokenId>(id));
  });
  return Vocabulary(tokens);
}

}  // namespace tp
