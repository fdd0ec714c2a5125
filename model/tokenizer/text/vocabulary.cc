#include "model/tokenizer/text/vocabulary.h"

#include <algorithm>
#include <bit>
#include <functional>

namespace tp {
namespace {

std::size_t hash_of(std::string_view text) { return std::hash<std::string_view>()(text); }

}  // namespace

Vocabulary::Vocabulary(const std::vector<std::pair<std::string_view, TokenId>>& tokens)
    : slots_(std::bit_ceil(2 * tokens.size() + 1)) {
  TokenId largest = -1;
  for (const auto& [text, id] : tokens) largest = std::max(largest, id);
  texts_.resize(static_cast<std::size_t>(largest) + 1);
  for (const auto& [text, id] : tokens) {
    texts_[static_cast<std::size_t>(id)] = text;
    const std::size_t hash = hash_of(text);
    Slot& slot = slots_[slot_of(text, hash)];
    if (slot.id == kFree) slot = {static_cast<std::uint32_t>(hash), id};
  }
}

std::size_t Vocabulary::slot_of(std::string_view text, std::size_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t place = hash & mask;; place = (place + 1) & mask) {
    const Slot& slot = slots_[place];
    if (slot.id == kFree) return place;
    if (slot.hash == static_cast<std::uint32_t>(hash) && *texts_[static_cast<std::size_t>(slot.id)] == text)
      return place;
  }
}

std::optional<TokenId> Vocabulary::find(std::string_view text) const {
  const TokenId id = slots_[slot_of(text, hash_of(text))].id;
  if (id == kFree) return std::nullopt;
  return id;
}

std::optional<std::string_view> Vocabulary::find_text(TokenId id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= texts_.size()) return std::nullopt;
  const std::optional<std::string>& text = texts_[static_cast<std::size_t>(id)];
  if (!text) return std::nullopt;
  return *text;
}

}  // namespace tp
