#pragma once

#include "tp/token_id.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
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

  std::optional<TokenId> find(std::string_view text) const;
  // Nothing for an id that has no token.
  std::optional<std::string_view> text_of(TokenId id) const;
  // The largest id + 1.
  std::size_t size() const { return texts_.size(); }

 private:
  // A hash table with open addressing, which refers to the texts: a BPE model looks up each of its merges
  // when it is loaded, three tokens each.
  struct Slot {
    std::uint32_t hash = 0;
    TokenId id = kFree;
  };
  static constexpr TokenId kFree = -1;

  // The slot that holds the text, or the free one where it belongs.
  std::size_t slot_of(std::string_view text, std::size_t hash) const;

  std::vector<std::optional<std::string>> texts_;  // [size]
  std::vector<Slot> slots_{Slot{}};                // a power of two, at most half full
};

}  // namespace tp
