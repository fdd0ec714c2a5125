#include "runtime/sampling/packed_masks.h"

#include <algorithm>
#include <bit>
#include <cstring>
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
  const std::span<const std::uint64_t> words = mask.words();
  const std::size_t before = values.size();
  values.resize(before + 2 * words.size());
  std::memcpy(values.data() + before, words.data(), words.size_bytes());
}

constexpr std::size_t kLookBack = 32;  // earlier masks that each mask is compared with

// Whether a list takes less space than bits. Stops counting as soon as the answer is known.
bool has_few_tokens(std::span<const std::uint64_t> words) {
  std::size_t count = 0;
  for (const std::uint64_t word : words) {
    count += static_cast<std::size_t>(std::popcount(word));
    if (count >= 2 * words.size()) return false;
  }
  return true;
}

}  // namespace

PackedMasks::PackedMasks(std::span<TokenMask* const> masks) {
  for (std::size_t i = 0; i < masks.size(); ++i) {
    const TokenMask& mask = *masks[i];
    const std::size_t count = std::min(i, kLookBack);
    const auto before = masks.subspan(i - count, count);
    const auto equal = std::ranges::find_if(
        before, [&](const TokenMask* other) { return std::ranges::equal(other->words(), mask.words()); });
    const std::size_t size = values.size();
    if (equal != before.end()) {
      kinds.push_back(kEqual + static_cast<std::uint32_t>(i - count + (equal - before.begin())));
    } else if (has_few_tokens(mask.words())) {
      append_list(mask, values);
      kinds.push_back(static_cast<std::uint32_t>(values.size() - size));
    } else {
      append_bits(mask, values);
      kinds.push_back(kBits);
    }
  }
}

PackedMasks::PackedMasks(std::vector<std::uint32_t> kinds_of_masks, std::size_t words_per_mask)
    : kinds(std::move(kinds_of_masks)) {
  std::size_t size = 0;
  for (const std::uint32_t kind : kinds)
    size += kind == kBits ? 2 * words_per_mask : kind < kEqual ? kind : 0;
  values.resize(size);
}

void PackedMasks::unpack(std::span<TokenMask* const> masks) const {
  const std::uint32_t* value = values.data();
  for (std::size_t i = 0; i < masks.size(); ++i) {
    const std::span<std::uint64_t> words = masks[i]->words();
    if (kinds[i] == kBits) {
      std::memcpy(words.data(), value, words.size_bytes());
      value += 2 * words.size();
    } else if (kinds[i] >= kEqual) {
      std::ranges::copy(std::as_const(*masks[kinds[i] - kEqual]).words(), words.begin());
    } else {
      std::ranges::fill(words, 0);
      for (const std::uint32_t* const end = value + kinds[i]; value != end; ++value)
        masks[i]->add(static_cast<TokenId>(*value));
    }
  }
}

}  // namespace tp
