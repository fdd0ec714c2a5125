// Rows that stay in the checkpoint's files have the values that would be loaded.
#include "model/weights/source/mapped_rows.h"

#include "model/weights/gguf_checkpoint.h"
#include "model/weights/open_checkpoint.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"
#include "model/weights/weight_loader.h"
#include "tests/model/weights/checkpoint_files.h"
#include "tests/model/weights/gguf_builder.h"
#include "tests/model/weights/random_gguf_rows.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

constexpr std::size_t kRows = 21;
constexpr std::size_t kColumns = 256;
const StoredLayer kTable{"layers.1.engram.embed", {kRows, kColumns}, "rows", "columns"};

class MappedTable : public testing::Test {
 protected:
  // Random numbers, each of `bytes` bytes. The highest byte is below 0x40, so that all numbers are finite.
  std::string numbers(std::size_t count, std::size_t bytes) {
    std::string data(count * bytes, '\0');
    for (std::size_t i = 0; i < data.size(); ++i)
      data[i] = static_cast<char>(random_() % (i % bytes == bytes - 1 ? 0x40 : 0x100));
    return data;
  }

  std::unique_ptr<WeightSource> open_safetensors(const std::string& dtype, std::size_t bytes) {
    folder_.write(
        "model.safetensors",
        test::safetensors_file(
            {{"layers.1.engram.embed.weight", dtype, {kRows, kColumns}, numbers(kRows * kColumns, bytes)}}));
    return SafetensorsCheckpoint::open(folder_.path());
  }

  // Each 32 columns of a row have a scale, or each two rows.
  std::unique_ptr<WeightSource> open_fp8(std::size_t scale_rows = 1) {
    const std::size_t groups = kColumns / 32;
    const std::size_t runs = (kRows + scale_rows - 1) / scale_rows;
    folder_.write("config.json", nlohmann::json{{"quantization_config",
                                                 {{"quant_method", "fp8"},
                                                  {"fmt", "e4m3"},
                                                  {"scale_fmt", "ue8m0"},
                                                  {"activation_scheme", "dynamic"},
                                                  {"weight_block_size", {scale_rows, 32}}}}}
                                     .dump());
    std::vector<std::uint8_t> scales(runs * groups);
    for (std::uint8_t& scale : scales) scale = static_cast<std::uint8_t>(110 + random_() % 30);
    folder_.write(
        "model.safetensors",
        test::safetensors_file(
            {{"layers.1.engram.embed.weight", "F8_E4M3", {kRows, kColumns}, numbers(kRows * kColumns, 1)},
             {"layers.1.engram.embed.scale", "F8_E8M0", {runs, groups}, test::bytes_of(scales)}}));
    return open_checkpoint(folder_.path());
  }

  std::unique_ptr<WeightSource> open_gguf(std::string_view name) {
    const GgufType& type = *find_gguf_type(name);
    std::string data;
    for (std::size_t row = 0; row < kRows; ++row)
      data += test::bytes_of(test::random_gguf_row(type, kColumns, random_));
    test::GgufBuilder file;
    file.text("general.architecture", "deepseek41")
        .whole("deepseek41.embedding_length", 8)
        .whole("deepseek41.attention.head_count", 2)
        .tensor("blk.1.engram_embd.weight", {kRows, kColumns}, name, data);
    return GgufCheckpoint::open(folder_.write("m.gguf", file.file()));
  }

  static bool is_mapped(const WeightSource& source, std::optional<WeightType> type) {
    WeightLoader loader(source, {0, 1}, type, {});
    return !loader.mapped_rows({&kTable, 1}).empty();
  }

  // The source is gone when the mapped rows are read.
  static void expect_loaded_values(std::unique_ptr<WeightSource> source, std::optional<WeightType> type) {
    WeightLoader loader(*source, {0, 1}, type, {});
    const std::vector<MappedRows> mapped = loader.mapped_rows({&kTable, 1});
    ASSERT_EQ(mapped.size(), 1U);
    EXPECT_EQ(source->unread(), std::vector<std::string>()) << "mapped rows count as read";
    EXPECT_EQ(source->bytes_read(), 0U);
    EXPECT_EQ(loader.loaded().mapped_bytes, source->stored_bytes());
    EXPECT_EQ(loader.loaded().elements, 0U);
    const std::vector<OwnedRows> all{{kTable, {0, kRows}}};
    const std::vector<LocalWeight> loaded = loader.rows_of_weights(all, /*of_vocabulary=*/true);
    ASSERT_EQ(loaded.size(), 1U);
    source.reset();
    std::vector<float> expected(kColumns);
    std::vector<float> found(kColumns);
    for (std::size_t row = 0; row < kRows; ++row) {
      loaded.front().unpack_row(row, expected.data());
      mapped.front().will_need(row);
      mapped.front().read(row, found.data());
      ASSERT_EQ(found, expected) << "row " << row;
    }
  }

  test::TemporaryDirectory folder_;
  std::mt19937 random_{5};
};

TEST_F(MappedTable, HasTheLoadedValuesOfSafetensors) {
  for (const auto type : {std::optional<WeightType>(), std::optional(WeightType::f32)}) {
    expect_loaded_values(open_safetensors("F32", 4), type);
    expect_loaded_values(open_safetensors("F16", 2), type);
    expect_loaded_values(open_safetensors("BF16", 2), type);
  }
}

TEST_F(MappedTable, HasTheLoadedValuesOfFp8) {
  for (const auto type : {std::optional<WeightType>(), std::optional(WeightType::f32)}) {
    expect_loaded_values(open_fp8(), type);
    expect_loaded_values(open_fp8(/*scale_rows=*/2), type);
  }
}

TEST_F(MappedTable, HasTheLoadedValuesOfGguf) {
  for (const char* const name : {"Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K",
                                 "Q6_K", "IQ4_NL", "IQ4_XS", "IQ2_XXS", "IQ3_S"}) {
    SCOPED_TRACE(name);
    expect_loaded_values(open_gguf(name), std::nullopt);
    expect_loaded_values(open_gguf(name), WeightType::f32);
  }
}

// Otherwise `--weights` would change results of the files that are mapped.
TEST_F(MappedTable, IsLoadedIfItsValuesChange) {
  const std::unique_ptr<WeightSource> bf16 = open_safetensors("BF16", 2);
  EXPECT_TRUE(is_mapped(*bf16, std::nullopt));
  EXPECT_TRUE(is_mapped(*bf16, WeightType::f32));
  EXPECT_TRUE(is_mapped(*bf16, WeightType::bf16));
  EXPECT_FALSE(is_mapped(*bf16, WeightType::f16));
  EXPECT_FALSE(is_mapped(*bf16, WeightType::int8));
  EXPECT_FALSE(is_mapped(*open_safetensors("F32", 4), WeightType::bf16));
  EXPECT_FALSE(is_mapped(*open_fp8(), WeightType::bf16));
  EXPECT_FALSE(is_mapped(*open_gguf("Q8_0"), WeightType::bf16));
  EXPECT_TRUE(is_mapped(*open_gguf("Q8_0"), WeightType::int8));
}

TEST(MappedRows, CountTheBytesThatRowsShareOnce) {
  const MappedRows rows(5, {{.bytes = 10}, {.bytes = 3, .rows = 2}}, {});
  EXPECT_EQ(rows.bytes(), 5U * 10 + 3 * 3);
}

}  // namespace
}  // namespace tp
