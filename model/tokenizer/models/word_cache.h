#pragma once

#include "tp/token_id.h"

#include <array>
#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

// Caches the tokens of recent words. Each word maps to one slot, and a later word replaces the slot's word,
// so the size is bounded. Thread-safe.
class WordCache {
 public:
  // Longer words rarely recur, so they are not cached.
  static constexpr std::size_t kMaxWordSize = 64;

  WordCache() : slots_(kSlotCount) {}

  // Appends the tokens of `word`, and returns whether they were cached.
  bool append_tokens_of(std::string_view word, std::vector<TokenId>& out) const;

  // Caches words of up to kMaxWordSize bytes, and ignores longer words.
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
