// The committed file with all block types, which is a seed of fuzz_gguf.
#include "model/weights/gguf_checkpoint.h"
#include "tests/model/weights/read_tensor.h"
#include "tests/reference/gguf.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

const std::filesystem::path kFile = std::filesystem::path(TP_TEST_DATA) / "gguf_types" / "types.gguf";

// Values by the formats' definitions.
std::vector<float> defined_values(const GgufTensor& tensor, const std::byte* data, std::size_t begin,
                                  std::size_t count) {
  const GgufType& type = tensor.type;
  std::vector<float> values;
  for (std::size_t i = begin; i < begin + count; ++i) {
    const auto* const block =
        reinterpret_cast<const std::uint8_t*>(data) + i / type.block_elements * type.block_bytes;
    values.push_back(reference::gguf_element(type.name, block, i % type.block_elements));
  }
  return values;
}

TEST(GgufTypes, AreReadFromACommittedFileWithTheValuesOfTheirDefinitions) {
  const GgufFiles files(kFile);
  const auto source = GgufCheckpoint::open(kFile);
  std::size_t layer = 0;
  for (const GgufType& type : kGgufTypes) {
    if (!type.readable || plain_type(type)) continue;
    SCOPED_TRACE(type.name);
    const GgufFiles::Entry* const entry = files.find(fmt::format("blk.{}.ffn_up.weight", layer));
    ASSERT_NE(entry, nullptr);
    ASSERT_EQ(entry->tensor.type.name, type.name);
    const std::byte* const data = entry->file.bytes().data() + entry->tensor.bytes.begin;
    const std::vector<float> expected = defined_values(entry->tensor, data, 0, 512);
    EXPECT_EQ(test::read_whole(*source, fmt::format("model.layers.{}.mlp.up_proj.weight", layer), {2, 256}),
              expected);
    EXPECT_NE(expected.front(), expected.back());
    ++layer;
  }
  EXPECT_GE(layer, 23U);
}

TEST(GgufTypes, MultiplyEachExpertOfNvfp4ByItsFactor) {
  const GgufFiles files(kFile);
  const auto source = GgufCheckpoint::open(kFile);
  const GgufFiles::Entry& entry = *files.find("blk.0.ffn_gate_exps.weight");
  const std::byte* const data = entry.file.bytes().data() + entry.tensor.bytes.begin;
  for (const std::size_t expert : {std::size_t{0}, std::size_t{1}}) {
    std::vector<float> expected = defined_values(entry.tensor, data, expert * 64, 64);
    for (float& value : expected) value *= expert == 0 ? 0.5F : 3.0F;
    EXPECT_EQ(test::read_whole(*source, fmt::format("model.layers.0.mlp.experts.{}.gate_proj.weight", expert),
                               {1, 64}),
              expected);
  }
}

}  // namespace
}  // namespace tp
