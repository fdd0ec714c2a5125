#include "model/weights/checkpoint/group_checkpoint.h"

#include "model/weights/open_checkpoint.h"
#include "tests/reference/group_quantized.h"
#include "tests/reference/random.h"

#include <cmath>

#include <gtest/gtest.h>

namespace tp {
namespace {

using kernels::PackedLayout;
using kernels::QuantizedRows;
using reference::GroupFormat;
using reference::GroupQuantized;
using test::error_of;
using test::TestTensor;

constexpr GroupFormat kFormats[] = {GroupFormat::awq,          GroupFormat::gptq,
                                    GroupFormat::gptq_v2,      GroupFormat::packed,
                                    GroupFormat::packed_zeros, GroupFormat::packed_int8_zeros};

// The first of them are positive, so that zero points are 0, and then negative, so that they are 15.
std::vector<float> random_values(std::size_t size) {
  reference::Random random(size);
  std::vector<float> values(size);
  for (float& value : values) value = random.number();
  for (std::size_t i = 0; i < size / 8; ++i) values[i] = std::abs(values[i]);
  for (std::size_t i = size / 8; i < size / 4; ++i) values[i] = -std::abs(values[i]);
  return values;
}

class Folder {
 public:
  Folder(const std::vector<TestTensor>& tensors, const nlohmann::json& quantization) {
    directory_.write("model.safetensors", test::safetensors_file(tensors));
    directory_.write("config.json", nlohmann::json{{"quantization_config", quantization}}.dump());
  }
  std::unique_ptr<WeightSource> open() const { return open_checkpoint(directory_.path()); }

 private:
  test::TemporaryDirectory directory_;
};

struct Case {
  GroupFormat format;
  std::size_t columns;
  std::size_t group;
  bool bf16_scales;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const GroupFormat format : kFormats) {
    for (const bool bf16 : {false, true}) {
      for (const std::size_t group : {32U, 64U, 128U, 256U}) all.push_back({format, 1024, group, bf16});
      all.push_back({format, 1024, 512, bf16});
      all.push_back({format, 480, 480, bf16});  // a group a row, and no whole super-block
      all.push_back({format, 384, 128, bf16});
    }
  }
  return all;
}

constexpr std::size_t kRows = 40;

// Whole rows, and columns that begin and end within groups; rows that begin within a word.
TEST(GroupCheckpoint, HoldsTheFormatsValuesBitForBit) {
  for (const auto& [format, columns, group, bf16] : cases()) {
    SCOPED_TRACE(testing::Message() << name_of(format) << ", groups of " << group << ", bf16 " << bf16);
    const GroupQuantized weight(random_values(kRows * columns), kRows, columns, group,
                                format == GroupFormat::packed, bf16);
    const Folder folder(weight.tensors("w", format), reference::quantization_config(format, group));
    const auto source = folder.open();
    for (const TensorSlice slice : {TensorSlice{{0, kRows}, {0, columns}}, TensorSlice{{3, 30}, {0, columns}},
                                    TensorSlice{{0, kRows}, {96, 352}}, TensorSlice{{21, 24}, {328, 380}}}) {
      const std::optional<WeightType> type = source->group_type("w.weight", slice.columns);
      ASSERT_TRUE(type);
      const std::size_t rows = slice.rows.size();
      const PackedLayout layout{*type, rows, slice.columns.size(), false, 0, slice.columns.begin % 256};
      std::vector<std::byte> memory(layout.bytes());
      for (std::size_t first = 0; first < rows; first += 16) {
        const std::size_t count = std::min<std::size_t>(16, rows - first);
        const std::size_t supers = (slice.columns.end + 255) / 256 - slice.columns.begin / 256;
        std::vector<std::uint8_t> elements(count * supers * 256, 99);
        std::vector<std::uint8_t> offsets(count * supers * 8, 99);
        std::vector<std::uint16_t> halves(count * supers * 8, 99);
        const QuantizedRows staged{count, supers, elements.data(), nullptr, offsets.data(), halves.data()};
        const Range wanted{slice.rows.begin + first, slice.rows.begin + first + count};
        source->read_quantized("w.weight", {kRows, columns}, {wanted, slice.columns}, staged);
        kernels::pack_quantized(layout, first, staged, memory.data());
      }
      std::vector<float> floats(slice.size());
      source->read("w.weight", {kRows, columns}, slice, {floats.data(), rows, slice.columns.size()});
      std::vector<float> held(slice.columns.size());
      for (std::size_t row = 0; row < rows; ++row) {
        kernels::unpack_row({layout, memory.data()}, row, held.data());
        for (std::size_t i = 0; i < held.size(); ++i) {
          const float expected = weight.value(slice.rows.begin + row, slice.columns.begin + i);
          ASSERT_EQ(held[i], expected) << row << ", " << i;
          ASSERT_EQ(floats[row * held.size() + i], expected) << row << ", " << i;
        }
      }
    }
  }
}

TEST(GroupCheckpoint, HasTheWeightsInPlaceOfTheirParts) {
  const GroupQuantized weight(random_values(16 * 128), 16, 128, 64, false, false);
  std::vector<TestTensor> tensors = weight.tensors("a", GroupFormat::gptq);
  tensors.push_back(test::counting_tensor("b.weight", {2, 3}));
  const auto source = Folder(tensors, reference::quantization_config(GroupFormat::gptq, 64)).open();
  EXPECT_EQ(source->names(), (std::vector<std::string>{"a.weight", "b.weight"}));
  EXPECT_TRUE(source->contains("a.weight"));
  EXPECT_EQ(text_of_all(source->types()), "GPTQ int4, groups of 64 as int4_g64, F32 as f32");
  EXPECT_EQ(text_of_rounded(source->types()), "");
  EXPECT_EQ(source->group_type("a.weight", {32, 96}), WeightType::int4_g64);
  EXPECT_EQ(source->dtype("a.weight"), DType::f32);
  EXPECT_EQ(source->group_type("b.weight", {0, 3}), std::nullopt);
  EXPECT_EQ(source->dtype("b.weight"), DType::f32);
  std::vector<float> all(16 * 128);
  EXPECT_EQ(source->unread(), (std::vector<std::string>{"a.qweight", "a.qzeros", "a.scales", "b.weight"}));
  source->read("a.weight", {16, 128}, TensorSlice::whole({16, 128}), {all.data(), 16, 128});
  EXPECT_EQ(source->unread(), (std::vector<std::string>{"b.weight"}));
  EXPECT_CONTAINS(
      error_of<CheckpointError>([&] {
        source->expect("a.weight", {16, 96}, "hidden_size");
      }),
      "a.qweight holds [16, 128], expected [16, 96] (hidden_size); config.json and the weights must");
}

// The same bytes mean something else in another format.
TEST(GroupCheckpoint, OfAnotherFormatHasAnotherFingerprint) {
  const GroupQuantized weight(random_values(16 * 128), 16, 128, 64, false, false);
  const Folder one(weight.tensors("a", GroupFormat::gptq),
                   reference::quantization_config(GroupFormat::gptq, 64));
  const Folder two(weight.tensors("a", GroupFormat::gptq),
                   reference::quantization_config(GroupFormat::gptq_v2, 64));
  EXPECT_NE(one.open()->fingerprint(), two.open()->fingerprint());
}

std::string refusal_of(const nlohmann::json& quantization) {
  const Folder folder({test::counting_tensor("w", {2, 3})}, quantization);
  return error_of<ConfigError>([&] { folder.open(); });
}

TEST(GroupCheckpoint, RefusesOtherQuantizationsByName) {
  nlohmann::json config = reference::quantization_config(GroupFormat::gptq, 128);
  config["bits"] = 3;
  EXPECT_CONTAINS(
      refusal_of(config),
      "config.json: quantization_config: bits must be 4, found 3; take the model quantized in another "
      "way, or the original one with --weights int4 or int8");
  config["bits"] = 4;
  config["checkpoint_format"] = "marlin";
  EXPECT_CONTAINS(refusal_of(config), "checkpoint_format must be gptq or gptq_v2, found marlin");
  config = reference::quantization_config(GroupFormat::awq, 128);
  config["version"] = "gemv";
  EXPECT_CONTAINS(refusal_of(config), "version must be gemm, found gemv");
  config = reference::quantization_config(GroupFormat::packed, 128);
  config["format"] = "float-quantized";
  EXPECT_CONTAINS(refusal_of(config), "format must be pack-quantized, found float-quantized");
  config = reference::quantization_config(GroupFormat::packed, 128);
  config["config_groups"]["group_0"]["weights"]["num_bits"] = 8;
  EXPECT_CONTAINS(refusal_of(config), "num_bits must be 4, found 8");
  EXPECT_CONTAINS(refusal_of({{"quant_method", "bitsandbytes"}}),
                  "quant_method must be awq, gptq, compressed-tensors or fp8, found bitsandbytes");
}

TEST(GroupCheckpoint, RefusesDamagedParts) {
  const GroupQuantized weight(random_values(16 * 128), 16, 128, 64, false, false);
  const auto error_with = [&](GroupFormat format, const auto& change) {
    std::vector<TestTensor> tensors = weight.tensors("a", format);
    change(tensors);
    const Folder folder(tensors, reference::quantization_config(format, 64));
    return error_of<CheckpointError>([&] { folder.open(); });
  };
  EXPECT_CONTAINS(error_with(GroupFormat::awq, [](auto& tensors) { tensors.pop_back(); }),
                  "there is no tensor a.scales, expected it beside the others of this AWQ weight; download");
  EXPECT_CONTAINS(error_with(GroupFormat::awq,
                             [](auto& tensors) {
                               tensors[1].shape = {1, 2};
                               tensors[1].data.resize(8);
                             }),
                  "a.qzeros is [1, 2], expected [2, 2] (groups, output features / 8)");
  EXPECT_CONTAINS(error_with(GroupFormat::gptq,
                             [](auto& tensors) {
                               tensors[2].dtype = "F32";
                               tensors[2].data.resize(2 * 16 * 4);
                             }),
                  "a.scales has the type F32, expected F16 BF16");
  EXPECT_CONTAINS(error_with(GroupFormat::packed,
                             [](auto& tensors) {
                               tensors[2].data = test::bytes_of(std::vector<std::int64_t>{16, 136});
                             }),
                  "a.weight_packed is [16, 16], expected [16, 17] (output features, input features / 8)");
  EXPECT_CONTAINS(error_with(GroupFormat::gptq, [](auto& tensors) { tensors[3].data[0] = 1; }),
                  "a.g_idx has column 0 in group 1, expected 0: columns ordered by activations (desc_act, "
                  "actorder) are not supported; take the model quantized without");
}

}  // namespace
}  // namespace tp
