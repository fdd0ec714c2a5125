#include "model/weights/gguf/gguf_dequantize.h"

#include "model/kernels/half.h"
#include "tests/model/weights/random_gguf_rows.h"
#include "tests/reference/gguf.h"

#include <bit>
#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

using test::random_gguf_row;

constexpr std::string_view kBlockTypes[] = {"Q4_0",  "Q4_1",    "Q5_0",   "Q5_1",  "Q8_0",    "Q2_K",
                                            "Q3_K",  "Q4_K",    "Q5_K",   "Q6_K",  "IQ4_NL",  "IQ4_XS",
                                            "MXFP4", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S",
                                            "IQ1_S", "IQ1_M",   "TQ1_0",  "TQ2_0", "NVFP4"};

const std::byte* bytes(const std::vector<std::uint8_t>& row) {
  return reinterpret_cast<const std::byte*>(row.data());
}

TEST(GgufDequantize, GivesTheFormatsValuesBitForBit) {
  std::mt19937 random(1);
  for (const std::string_view name : kBlockTypes) {
    const GgufType& type = *find_gguf_type(name);
    for (int round = 0; round < 50; ++round) {
      const std::vector<std::uint8_t> row = random_gguf_row(type, 2 * type.block_elements, random);
      std::vector<float> values(2 * type.block_elements);
      dequantize(type, bytes(row), {0, values.size()}, values.data());
      for (std::size_t i = 0; i < values.size(); ++i) {
        const float expected = reference::gguf_element(
            name, row.data() + i / type.block_elements * type.block_bytes, i % type.block_elements);
        ASSERT_EQ(std::bit_cast<std::uint32_t>(values[i]), std::bit_cast<std::uint32_t>(expected))
            << name << ", element " << i << ": " << values[i] << ", expected " << expected;
      }
    }
  }
}

TEST(GgufDequantize, EveryReadableTypeIsTested) {
  std::size_t readable = 0;
  for (const GgufType& type : kGgufTypes) readable += type.readable && !plain_type(type) ? 1 : 0;
  EXPECT_EQ(readable, std::size(kBlockTypes));
}

TEST(GgufDequantize, APartOfARowHasTheValuesOfTheWholeRow) {
  std::mt19937 random(2);
  for (const GgufType& type : kGgufTypes) {
    if (!type.readable) continue;
    const std::size_t columns = 768;
    const std::vector<std::uint8_t> row = random_gguf_row(type, columns, random);
    std::vector<float> whole(columns);
    dequantize(type, bytes(row), {0, columns}, whole.data());
    for (const Range part : {Range{0, 1}, Range{31, 33}, Range{32, 96}, Range{250, 262}, Range{256, 768},
                             Range{5, 763}, Range{767, 768}, Range{40, 40}}) {
      std::vector<float> values(part.size() + 1, -7.0F);
      dequantize(type, bytes(row), part, values.data());
      EXPECT_EQ(std::memcmp(values.data(), whole.data() + part.begin, part.size() * sizeof(float)), 0)
          << type.name << " " << part.begin;
      EXPECT_EQ(values.back(), -7.0F) << type.name;  // nothing is written behind the part
    }
  }
}

TEST(GgufDequantize, GroupsAreTheSameValuesNotYetMultiplied) {
  std::mt19937 random(3);
  for (const std::string_view name : {"Q8_0", "Q4_0"}) {
    const GgufType& type = *find_gguf_type(name);
    ASSERT_TRUE(has_groups(type));
    const std::vector<std::uint8_t> row = random_gguf_row(type, 4 * type.block_elements, random);
    std::vector<float> values(64);
    dequantize(type, bytes(row), {32, 96}, values.data());
    std::vector<std::int8_t> elements(64);
    std::vector<std::uint16_t> scales(2);
    read_groups(type, bytes(row), {32, 96}, elements.data(), scales.data());
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_EQ(values[i], kernels::f16_to_float(scales[i / 32]) * static_cast<float>(elements[i])) << name;
  }
  for (const char* name : {"F32", "Q5_0", "Q4_1", "Q4_K", "Q6_K", "IQ4_NL", "IQ1_S"})
    EXPECT_FALSE(has_groups(*find_gguf_type(name))) << name;
}

}  // namespace
}  // namespace tp
