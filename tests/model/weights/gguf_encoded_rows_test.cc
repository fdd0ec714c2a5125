// Hash tables whose rows GGUF files store as bytes with their scales.
#include "model/weights/gguf_checkpoint.h"
#include "tests/model/weights/gguf_builder.h"
#include "tests/model/weights/read_tensor.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

const std::string kTable = "layers.1.engram.embed.weight";

class GgufEncodedRows : public testing::Test {
 protected:
  // Two rows: 256 elements, all 1 or all -1, and a power of two for each 32 of them.
  std::unique_ptr<GgufCheckpoint> open(const std::string& encoding, const std::string& storage = "embedded") {
    std::string bytes;
    for (const char one : {'\x38', '\xb8'}) {
      bytes += std::string(256, one);
      for (std::uint8_t group = 0; group < 8; ++group)
        bytes += test::le(static_cast<std::uint8_t>(124 + group));
    }
    test::GgufBuilder file;
    file.text("general.architecture", "deepseek41")
        .whole("deepseek41.embedding_length", 8)
        .whole("deepseek41.attention.head_count", 2)
        .text("deepseek41.engram.encoding", encoding)
        .text("deepseek41.engram.storage", storage)
        .tensor("blk.1.engram_embd.weight", {2, 264}, "I8", bytes);
    return GgufCheckpoint::open(folder_.write("m.gguf", file.file()));
  }

  test::TemporaryDirectory folder_;
};

TEST_F(GgufEncodedRows, AreProductsOfElementsAndScales) {
  const auto source = open("e4m3_e8m0_32_row264");
  EXPECT_EQ(source->dtype(kTable), DType::bf16);
  const std::vector<float> values = test::read_whole(*source, kTable, {2, 256});
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float scale = std::ldexp(1.0F, static_cast<int>(i % 256 / 32) - 3);
    ASSERT_EQ(values[i], i < 256 ? scale : -scale) << i;
  }
  EXPECT_EQ(test::read_slice(*source, kTable, {2, 256}, {{1, 2}, {31, 33}}),
            (std::vector<float>{-0.125F, -0.25F}));
}

TEST_F(GgufEncodedRows, KeepTheirElementsAndScalesInMemory) {
  const auto source = open("e4m3_e8m0_32_row264");
  EXPECT_EQ(source->group_type(kTable, {0, 256}), WeightType::f8_e4m3);
  const StoredScales scales = source->scales_of(kTable);
  EXPECT_EQ(scales.column_block, 32U);
  EXPECT_EQ(scales.groups, 8U);
  std::vector<std::uint8_t> elements(64);
  std::vector<std::uint8_t> unused(2);
  std::vector<std::uint32_t> bits(2);
  source->read_scaled(kTable, {2, 256}, {{1, 2}, {64, 128}},
                      {1, 64, 2, elements.data(), bits.data(), unused.data(), unused.data()});
  EXPECT_EQ(elements, std::vector<std::uint8_t>(64, 0xb8));
  EXPECT_EQ(bits, (std::vector<std::uint32_t>{0x3f00, 0x3f80}));  // 0.5 and 1 as bf16
  ASSERT_EQ(source->types().size(), 1U);
  EXPECT_EQ(source->types().front().type, "F8_E4M3");
  EXPECT_EQ(source->types().front().elements, 512U);
  EXPECT_TRUE(source->types().front().exactly);
}

// Their values do not depend on the source, which may be gone when rows are read.
TEST_F(GgufEncodedRows, MayStayInTheFile) {
  const std::vector<float> expected = test::read_whole(*open("e4m3_e8m0_32_row264"), kTable, {2, 256});
  const std::optional<MappedRows> rows = open("e4m3_e8m0_32_row264")->mapped_rows(kTable, {2, 256});
  ASSERT_TRUE(rows);
  EXPECT_EQ(rows->bytes(), 2U * 264);
  std::vector<float> row(256);
  for (std::size_t i = 0; i < 2; ++i) {
    rows->will_need(i);
    rows->read(i, row.data());
    EXPECT_TRUE(std::equal(row.begin(), row.end(), expected.begin() + static_cast<std::ptrdiff_t>(256 * i)));
  }
}

TEST_F(GgufEncodedRows, AreRefusedInOtherFiles) {
  const std::string error = test::error_of<CheckpointError>([&] { open("q4_k_row144", "external"); });
  EXPECT_CONTAINS(error, "m.gguf: engram.storage must be embedded, found external");
  EXPECT_CONTAINS(error, "q4_k_row144");
}

TEST_F(GgufEncodedRows, AreRefusedInAnotherFormat) {
  const auto source = open("e4m3_e8m0_32_row528");
  EXPECT_CONTAINS(test::error_of<CheckpointError>([&] { source->dtype(kTable); }),
                  "blk.1.engram_embd.weight has the type I8, expected one of");
}

}  // namespace
}  // namespace tp
