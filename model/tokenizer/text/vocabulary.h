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

// Exclusive upper bound of ids. The largest vocabularies have a quarter of a million tokens. Larger ids mean
// a damaged file, and are refused because tables are as long as the largest id.
inline constexpr TokenId kMaxVocabularySize = 1 << 22;

// Maps strings to ids and back. Ids may leave gaps.
class Vocabulary {
 public:
  Vocabulary() = default;
  // Tokens and their ids, which must be in [0, kMaxVocabularySize) and unique.
  explicit Vocabulary(const std::vector<std::pair<std::string_view, TokenId>>& tokens);

  std::optional<TokenId> find(std::string_view text) const;
  // The text of an id; nullopt for an id without a token.
  std::optional<std::string_view> find_text(TokenId id) const;
  // The largest id + 1.
  std::size_t size() const { return texts_.size(); }

 private:
  // A hash table with open addressing, which refers to the texts. Loading a BPE model looks up three tokens
  // per merge.
  struct Slot {
    std::uint32_t hash = 0;
    TokenId id = kFree;
  };
  static constexpr TokenId kFree = -1;

  // The slot of the text, or the free slot where the text belongs.
  std::size_t slot_of(std::string_view text, std::size_t hash) const;

  std::vector<std::optional<std::string>> texts_;  // [size]
  std::vector<Slot> slots_{Slot{}};                // [power of two], at most half full
};

}  // namespace tp
