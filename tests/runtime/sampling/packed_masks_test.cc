#include "runtime/sampling/packed_masks.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

constexpr std::size_t kVocabulary = 300;

TokenMask mask_of(std::size_t begin, std::size_t end) {
  TokenMask mask(kVocabulary);
  for (std::size_t id = begin; id < end; ++id) mask.add(static_cast<TokenId>(id));
  return mask;
}

std::vector<std::uint64_t> bits_of(const TokenMask& mask) {
  return {mask.words().begin(), mask.words().end()};
}

TEST(PackedMasks, ArriveAsTheyWere) {
  std::vector<TokenMask> masks = {mask_of(0, 300), mask_of(7, 9),    mask_of(0, 0),
                                  mask_of(63, 65), mask_of(10, 290), mask_of(299, 300)};
  std::vector<TokenMask*> sent;
  for (TokenMask& mask : masks) sent.push_back(&mask);
  const PackedMasks packed(sent);
  PackedMasks received(packed.kinds, masks.front().words().size());
  ASSERT_EQ(received.values.size(), packed.values.size());
  received.values = packed.values;
  std::vector<TokenMask> found(masks.size(), TokenMask(kVocabulary, true));
  std::vector<TokenMask*> places;
  for (TokenMask& mask : found) places.push_back(&mask);
  received.unpack(places);
  for (std::size_t i = 0; i < masks.size(); ++i) EXPECT_EQ(bits_of(found[i]), bits_of(masks[i])) << i;
}

TEST(PackedMasks, TravelOnceIfTheyAreEqual) {
  std::vector<TokenMask> masks = {mask_of(0, 200), mask_of(7, 9), mask_of(0, 200), mask_of(0, 200)};
  std::vector<TokenMask*> sent;
  for (TokenMask& mask : masks) sent.push_back(&mask);
  const PackedMasks packed(sent);
  EXPECT_EQ(packed.values.size(), 2 * masks.front().words().size() + 2);
  std::vector<TokenMask> found(masks.size(), TokenMask(kVocabulary));
  std::vector<TokenMask*> places;
  for (TokenMask& mask : found) places.push_back(&mask);
  packed.unpack(places);
  for (std::size_t i = 0; i < masks.size(); ++i) EXPECT_EQ(bits_of(found[i]), bits_of(masks[i])) << i;
}

}  // namespace
}  // namespace tp
