#pragma once

#include "tp/token_id.h"

#include <array>
#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

// Remembers the tokens of words that were seen lately. Each word has one slot, and a word that comes later
// takes the slot over, so the size is bounded. May be used by several threads.
class WordCache {
 public:
  // Longer words are not worth remembering: they hardly come again.
  static constexpr std::size_t kMaxWordSize = 64;

  WordCache() : slots_(kSlotCount) {}

  // Appends the tokens of `word` and returns true if they are known.
  bool append_tokens_of(std::string_view word, std::vector<TokenId>& out) const;

  // Caches words of up to kMaxWordSize bytes; longer ones are dropped.
  void remember(std::string_view word, const TokenId* tokens, std::size_t count);

 private:
  static constexpr std::size_t kSlotCount = 1 << 14;
  static constexpr std::size_t kLockCount = 64;

  struct Slot {
    std::string word;
    std::vector<TokenId> tokens;
  };

  static std::size_t slot_of(std::string_view word);

  std::vector<Slot> slots_;  // [kSlotCount]
  mutable std::array<std::mutex, kLockCount> locks_;
};

}  // namespace tp
