#pragma once

#include "tp/token_id.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tp {

// Ids are below this. The largest vocabularies have a quarter of a million tokens; a file that asks for more
// is damaged, and tables are as long as the largest id.
inline constexpr TokenId kMaxVocabularySize = 1 << 22;

// Strings and their ids, both ways. Ids may leave gaps.
class Vocabulary {
 public:
  Vocabulary() = default;
  // Tokens and their ids, which must be in [0, kMaxVocabularySize) and differ.
  explicit Vocabulary(const std::vector<std::pair<std::string_view, TokenId>>& tokens);

  // The index refers to the texts.
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;
  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;

  std::optional<TokenId> find(std::string_view text) const;
  // Nothing for an id that has no token.
  std::optional<std::string_view> text_of(TokenId id) const;
  // The largest id + 1.
  std::size_t size() const { return texts_.size(); }

 private:
  std::vector<std::optional<std::string>> texts_;  // [size]
  std::unordered_map<std::string_view, TokenId> ids_;
};

}  // namespace tp
