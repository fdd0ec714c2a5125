#include "model/weights/gguf/gguf_quantized.h"

#include "tests/model/weights/random_gguf_rows.h"
#include "tests/reference/gguf.h"

#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

using kernels::PackedLayout;
using kernels::QuantizedRows;

// Columns cut super-blocks, and rows end within super-blocks, which types with blocks of 32 allow.
TEST(GgufQuantized, RowsInMemoryHaveTheFormatsValuesBitForBit) {
  std::mt19937 random(1);
  std::size_t types = 0;
  for (const GgufType& type : kGgufTypes) {
    const std::optional<WeightType> held = quantized_type(type);
    if (!held) continue;
    ++types;
    const kernels::QuantFormat& format = *kernels::quant_format(*held);
    const std::size_t columns = type.block_elements == 256 ? 1024 : 1024 - type.block_elements;
    for (const Range part : {Range{0, columns}, Range{0, 256}, Range{32, 96}, Range{256, 512},
                             Range{240, 720}, Range{704, columns}}) {
      constexpr std::size_t kRows = 19;
      const std::size_t supers = (part.end + 255) / 256 - part.begin / 256;
      const std::size_t blocks = kRows * supers;
      std::vector<std::uint8_t> elements(blocks * 256, 99);
      std::vector<std::uint8_t> scales(blocks * QuantizedRows::groups(format), 99);
      std::vector<std::uint8_t> offsets(blocks * QuantizedRows::groups(format), 99);
      std::vector<std::uint16_t> halves(blocks * QuantizedRows::halves_of(format), 99);
      const QuantizedRows rows{kRows, supers, elements.data(), scales.data(), offsets.data(), halves.data()};
      std::vector<std::vector<std::uint8_t>> stored;
      for (std::size_t row = 0; row < kRows; ++row) {
        stored.push_back(test::random_gguf_row(type, columns, random));
        read_quantized(type, reinterpret_cast<const std::byte*>(stored.back().data()), columns, part, rows,
                       row);
      }
      const PackedLayout layout{*held, kRows, part.size(), false, 0, part.begin % 256};
      std::vector<std::byte> memory(layout.bytes());
      kernels::pack_quantized(layout, 0, rows, memory.data());
      std::vector<float> values(part.size());
      for (std::size_t row = 0; row < kRows; ++row) {
        kernels::unpack_row({layout, memory.data()}, row, values.data());
        for (std::size_t i = part.begin; i < part.end; ++i) {
          const float expected = reference::gguf_element(
              type.name, stored[row].data() + i / type.block_elements * type.block_bytes,
              i % type.block_elements);
          // The sign of zero may differ: products of Q6_K and Q3_K have a sign, and none of IQ4_NL's is zero.
          ASSERT_EQ(values[i - part.begin], expected) << type.name << ", row " << row << ", element " << i;
        }
      }
    }
  }
  EXPECT_EQ(types, 21U);
}

}  // namespace
}  // namespace tp
