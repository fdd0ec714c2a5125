#include "runtime/engine/packed_masks.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace tp {
namespace {

void append_list(const TokenMask& mask, std::vector<std::uint32_t>& values) {
  for (std::size_t i = 0; i < mask.words().size(); ++i) {
    for (std::uint64_t bits = mask.words()[i]; bits != 0; bits &= bits - 1)
      values.push_back(static_cast<std::uint32_t>(64 * i + static_cast<std::size_t>(std::countr_zero(bits))));
  }
}

void append_bits(const TokenMask& mask, std::vector<std::uint32_t>& values) {
  for (const std::uint64_t word : mask.words()) {
    values.push_back(static_cast<std::uint32_t>(word));
    values.push_back(static_cast<std::uint32_t>(word >> 32));
  }
}

}  // namespace

PackedMasks::PackedMasks(std::span<TokenMask* const> masks) {
  for (const TokenMask* mask : masks) {
    std::size_t count = 0;
    for (const std::uint64_t word : mask->words()) count += static_cast<std::size_t>(std::popcount(word));
    const bool is_list = count < 2 * mask->words().size();
    tokens.push_back(is_list ? static_cast<std::uint32_t>(count) : kBits);
    if (is_list)
      append_list(*mask, values);
    else
      append_bits(*mask, values);
  }
}

PackedMasks::PackedMasks(std::vector<std::uint32_t> tokens_of_masks, std::size_t words_per_mask)
    : tokens(std::move(tokens_of_masks)) {
  std::size_t size = 0;
  for (const std::uint32_t count : tokens) size += count == kBits ? 2 * words_per_mask : count;
  values.resize(size);
}

void PackedMasks::unpack(std::span<TokenMask* const> masks) const {
  auto value = values.begin();
  for (std::size_t i = 0; i < masks.size(); ++i) {
    const std::span<std::uint64_t> words = masks[i]->words();
    if (tokens[i] == kBits) {
      for (std::uint64_t& word : words) {
        word = *value++;
        word |= std::uint64_t{*value++} << 32;
      }
    } else {
      std::ranges::fill(words, 0);
      for (std::uint32_t n = 0; n < tokens[i]; ++n) masks[i]->add(static_cast<TokenId>(*value++));
    }
  }
}

}  // namespace tp
