#include "model/tokenizer/vocabulary.h"

#include <algorithm>

namespace tp {

Vocabulary::Vocabulary(const std::vector<std::pair<std::string_view, TokenId>>& tokens) {
  TokenId largest = -1;
  for (const auto& [text, id] : tokens) largest = std::max(largest, id);
  texts_.resize(static_cast<std::size_t>(largest) + 1);
  ids_.reserve(tokens.size());
  for (const auto& [text, id] : tokens) {
    std::optional<std::string>& stored = texts_[static_cast<std::size_t>(id)];
    stored = text;
    ids_.emplace(*stored, id);
  }
}

std::optional<TokenId> Vocabulary::find(std::string_view text) const {
  const auto entry = ids_.find(text);
  if (entry == ids_.end()) return std::nullopt;
  return entry->second;
}

std::optional<std::string_view> Vocabulary::text_of(TokenId id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= texts_.size()) return std::nullopt;
  const std::optional<std::string>& text = texts_[static_cast<std::size_t>(id)];
  if (!text) return std::nullopt;
  return *text;
}

}  // namespace tp
