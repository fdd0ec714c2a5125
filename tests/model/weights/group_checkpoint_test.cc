#include "model/weights/quantized/group_checkpoint.h"

#include "model/weights/open_checkpoint.h"
#include "tests/model/weights/listed_types.h"
#include "tests/model/weights/read_tensor.h"
#include "tests/reference/four_bit_floats.h"
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
using test::read_slice;
using test::read_whole;
using test::TestTensor;

constexpr GroupFormat kFormats[] = {GroupFormat::awq,          GroupFormat::gptq,
                                    GroupFormat::gptq_v2,      GroupFormat::packed,
                                    GroupFormat::packed_zeros, GroupFormat::packed_int8_zeros};

// The first values are positive, so their zero points are 0. The next ones are negative, so their zero points
// are 15.
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
      all.push_back({format, 480, 480, bf16});  // a group per row, and no whole super-block
      all.push_back({format, 384, 128, bf16});
    }
  }
  return all;
}

constexpr std::size_t kRows = 40;

// Covers whole rows, columns that begin and end within groups, and rows that begin within a word.
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
      const std::vector<float> floats = read_slice(*source, "w.weight", {kRows, columns}, slice);
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

// The loading tests check the values of other types.
TEST(GroupCheckpoint, ReadsNumbersOf8BitsAndColumnsInAnyOrder) {
  reference::Random random(9);
  std::vector<std::size_t> order;
  for (std::size_t column = 0; column < 384; ++column) order.push_back(random.integer(0, 5));
  const std::vector<float> values = random_values(kRows * 384);
  const auto expect = [&](const GroupQuantized& weight, GroupFormat format, unsigned bits, WeightType type) {
    SCOPED_TRACE(testing::Message() << name_of(format) << ", " << bits << " bits");
    const Folder folder(weight.tensors("w", format), reference::quantization_config(format, 64, bits));
    const auto source = folder.open();
    for (const TensorSlice slice : {TensorSlice{{0, kRows}, {0, 384}}, TensorSlice{{21, 24}, {329, 377}}}) {
      EXPECT_EQ(source->group_type("w.weight", slice.columns), type);
      const std::vector<float> floats = read_slice(*source, "w.weight", {kRows, 384}, slice);
      for (std::size_t i = 0; i < floats.size(); ++i) {
        ASSERT_EQ(floats[i], weight.value(slice.rows.begin + i / slice.columns.size(),
                                          slice.columns.begin + i % slice.columns.size()));
      }
    }
  };
  expect({values, kRows, 384, 64, false, false, 8}, GroupFormat::awq, 8, WeightType::int8_scaled);
  for (const GroupFormat format :
       {GroupFormat::gptq, GroupFormat::gptq_v2, GroupFormat::packed, GroupFormat::packed_zeros,
        GroupFormat::packed_int8_zeros, GroupFormat::int8}) {
    const bool symmetric = format == GroupFormat::packed;
    expect({values, kRows, 384, 64, symmetric, false, 8}, format, 8, WeightType::int8_scaled);
    if (format == GroupFormat::int8) continue;
    expect({values, kRows, 384, order, symmetric, true, 8}, format, 8, WeightType::int8_scaled);
    expect({values, kRows, 384, order, symmetric, true, 4}, format, 4, WeightType::int4_scaled);
  }
  expect({values, kRows, 384, 48, false, true, 4}, GroupFormat::gptq, 4, WeightType::int4_scaled);
  expect({values, kRows, 384, 32, true, true, 4}, GroupFormat::packed, 4, WeightType::int4_sym_g32_bf16);
}

// Every bit pattern, against the definition of the numbers.
TEST(GroupCheckpoint, MultipliesF8ByTheScaleOfItsBlock) {
  const MatrixShape shape{300, 150};
  std::string bytes;
  for (std::size_t i = 0; i < shape.size(); ++i)
    bytes.push_back(static_cast<char>(i % 128 == 0x7f ? 0 : i * 7 % 256 % 128 == 0x7f ? 1 : i * 7 % 256));
  const std::vector<float> scales = {0.5F, 0.25F, 3.0F, 1e-3F, 7.0F, 1.0F};  // [3, 2]
  const std::vector<TestTensor> tensors = {{"w", "F8_E4M3", {300, 150}, bytes},
                                           {"w_scale_inv", "F32", {3, 2}, test::bytes_of(scales)}};
  test::TemporaryDirectory directory;  // without a config
  directory.write("model.safetensors", test::safetensors_file(tensors));
  const auto source = open_checkpoint(directory.path());
  EXPECT_EQ(source->group_type("w", {0, 150}), WeightType::f8_e4m3);
  EXPECT_EQ(test::listed_types(source->types()), "F8_E4M3, blocks of 128 x 128 as f8_e4m3");
  EXPECT_EQ(list_rounded(source->types()), "");
  for (const TensorSlice slice : {TensorSlice{{0, 300}, {0, 150}}, TensorSlice{{120, 260}, {77, 131}}}) {
    const std::vector<float> values = read_slice(*source, "w", shape, slice);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t row = slice.rows.begin + i / slice.columns.size();
      const std::size_t column = slice.columns.begin + i % slice.columns.size();
      const auto bits = static_cast<unsigned char>(bytes[row * shape.columns + column]);
      const int exponent = bits >> 3 & 15;
      const double magnitude = exponent == 0 ? (bits & 7) / 8.0 * std::pow(2.0, -6)
                                             : (1 + (bits & 7) / 8.0) * std::pow(2.0, exponent - 7);
      const double scale = scales[row / 128 * 2 + column / 128];
      ASSERT_EQ(values[i], static_cast<float>((bits & 0x80 ? -magnitude : magnitude) * scale));
    }
  }
  EXPECT_TRUE(source->unread().empty());
}

// Scales are powers of two, stored as exponents: in blocks, and in groups of 32 like MXFP8. Includes the ends
// of their range.
TEST(GroupCheckpoint, AcceptsExponentsAsScalesOfF8) {
  const auto expect = [](const std::string& type, std::size_t block_rows, std::size_t block_columns,
                         const std::vector<std::size_t>& shape) {
    SCOPED_TRACE(type);
    const reference::F8Quantized weight(random_values(40 * 96), 40, 96, block_rows, block_columns, type);
    const Folder folder(weight.tensors("w", ".weight_scale_inv", shape),
                        {{"quant_method", "fp8"}, {"weight_block_size", {block_rows, block_columns}}});
    const auto source = folder.open();
    EXPECT_EQ(source->group_type("w.weight", {0, 96}), WeightType::f8_e4m3);
    EXPECT_EQ(source->scales_of("w.weight").type, kernels::ScaleType::bf16);
    EXPECT_EQ(read_whole(*source, "w.weight", {40, 96}), weight.values());
  };
  expect("F8_E8M0", 16, 32, {3, 3});
  expect("U8", 1, 32, {40, 3});

  const std::vector<TestTensor> tensors = {{"w", "F8_E4M3", {3, 1}, "\x38\x38\x38"},  // 1, three times
                                           {"w_scale", "F8_E8M0", {3, 1}, std::string("\0\x01\xfe", 3)}};
  const auto source = Folder(tensors, {{"quant_method", "fp8"}}).open();
  EXPECT_EQ(read_whole(*source, "w", {3, 1}), (std::vector<float>{0x1p-127F, 0x1p-126F, 0x1p127F}));
}

// Covers one scale, a scale per row, and blocks, whose scales have four dimensions.
TEST(GroupCheckpoint, ReadsModelOptsFiles) {
  const auto expect = [](const nlohmann::json& config, std::size_t block_rows, std::size_t block_columns,
                         const std::vector<std::size_t>& shape) {
    SCOPED_TRACE(config.dump());
    const reference::F8Quantized weight(random_values(300 * 160), 300, 160, block_rows, block_columns, "F32");
    std::vector<TestTensor> tensors = weight.tensors("w", ".weight_scale", shape);
    tensors.push_back({"w.input_scale", "F32", {}, "1234"});
    const Folder folder(tensors, config);
    EXPECT_EQ(read_whole(*folder.open(), "w.weight", {300, 160}), weight.values());
  };
  expect({{"quant_method", "modelopt"}, {"quant_algo", "FP8"}}, 300, 160, {});
  expect({{"quant_method", "modelopt"}, {"quant_algo", "FP8_PER_CHANNEL_PER_TOKEN"}}, 1, 160, {300});
  expect({{"quant_method", "modelopt"}, {"quant_algo", "fp8_pb_wo"}}, 128, 128, {3, 1, 2, 1});
}

TEST(GroupCheckpoint, ReadsModelsOfSeveralPrecisionsByTheirTensors) {
  constexpr MatrixShape kShape{32, 64};
  const reference::F8Quantized f8(random_values(kShape.size()), 32, 64, 32, 64, "F32");
  const reference::FourBitFloats f4(random_values(kShape.size()), 32, 64, reference::FourBitFormat::modelopt);
  std::vector<TestTensor> tensors = f8.tensors("a", ".weight_scale", {});
  for (TestTensor& tensor : f4.tensors("b")) tensors.push_back(std::move(tensor));
  const nlohmann::json layers = {{"a", {{"quant_algo", "FP8"}}}, {"b", {{"quant_algo", "NVFP4"}}}};
  for (const char* const algorithm : {"MIXED_PRECISION", "NVFP4"}) {
    const Folder folder(tensors, {{"quant_algo", algorithm}, {"quantized_layers", layers}});
    const auto source = folder.open();
    EXPECT_EQ(read_whole(*source, "a.weight", kShape), f8.values());
    EXPECT_EQ(read_whole(*source, "b.weight", kShape), f4.values());
    EXPECT_EQ(test::listed_types(source->types()), "F8_E4M3, one scale as f8_e4m3, NVFP4 as nvfp4");
  }
}

TEST(GroupCheckpoint, ReadsModelOptsFileNextToTheConfig) {
  const reference::F8Quantized weight(random_values(32 * 64), 32, 64, 32, 64, "F32");
  const auto open_with = [&](const std::string& algorithm) {
    test::TemporaryDirectory folder;
    folder.write("model.safetensors", test::safetensors_file(weight.tensors("w", ".weight_scale", {})));
    folder.write("config.json", "{}");
    folder.write(
        "hf_quant_config.json",
        nlohmann::json{{"producer", {{"name", "modelopt"}}},
                       {"quantization", {{"quant_algo", algorithm}, {"exclude_modules", {"lm_head"}}}}}
            .dump());
    return read_whole(*open_checkpoint(folder.path()), "w.weight", {32, 64});
  };
  EXPECT_EQ(open_with("FP8"), weight.values());
  EXPECT_CONTAINS(error_of<ConfigError>([&] { open_with("W4A8_AWQ"); }),
                  "hf_quant_config.json: quantization_config: quant_algo of modelopt must be FP8, ");
}

TEST(GroupCheckpoint, KnowsTheScalesOfF8ByTheirShape) {
  const auto types_with = [](const TestTensor& scales) {
    const std::vector<TestTensor> tensors = {{"w", "F8_E4M3", {300, 150}, std::string(300 * 150, '1')},
                                             scales};
    const Folder folder(tensors, {{"quant_method", "fp8"}, {"weight_block_size", {100, 50}}});
    return test::listed_types(folder.open()->types());
  };
  const auto floats = [](std::size_t count) { return std::string(count * 4, '\0'); };
  EXPECT_EQ(types_with({"w_scale_inv", "F32", {3, 3}, floats(9)}), "F8_E4M3, blocks of 100 x 50 as f8_e4m3");
  EXPECT_EQ(types_with({"w_scale", "F32", {}, floats(1)}), "F8_E4M3, one scale as f8_e4m3");
  EXPECT_EQ(types_with({"w_scale", "F32", {1}, floats(1)}), "F8_E4M3, one scale as f8_e4m3");
  EXPECT_EQ(types_with({"w_scale", "F32", {300, 1}, floats(300)}), "F8_E4M3, a group a row as f8_e4m3");
  EXPECT_EQ(types_with({"w_scale", "BF16", {300}, floats(150)}), "F8_E4M3, a group a row as f8_e4m3");
  EXPECT_EQ(types_with({"w_scale", "F16", {300, 3}, floats(450)}), "F8_E4M3, groups of 50 as f8_e4m3");
}

TEST(GroupCheckpoint, WantsScalesForF8) {
  const auto error_with = [](const std::vector<TestTensor>& tensors) {
    return error_of<CheckpointError>([&] {
      const Folder folder(tensors, {{"quant_method", "fp8"}});
      folder.open()->expect("w", {2, 2}, "");
    });
  };
  const TestTensor weight{"w", "F8_E4M3", {2, 2}, "1234"};
  EXPECT_CONTAINS(error_with({weight}),
                  "w has the type F8_E4M3, expected F32, F16, BF16, or F8_E4M3 with a tensor of scales "
                  "(w_scale_inv); convert the checkpoint");
  EXPECT_CONTAINS(
      error_with({weight, test::counting_tensor("w_scale_inv", {1, 3})}),
      "w_scale_inv is [1, 3], expected [1, 1] (blocks of 128 x 128), [2, groups] or one number; config");
  EXPECT_CONTAINS(error_with({weight, {"w_scale_inv", "F64", {1, 1}, "12345678"}}),
                  "w_scale_inv has the type F64, expected F32 F16 BF16 F8_E8M0 U8");
}

// Scales of activations are for programs that also quantize activations.
TEST(GroupCheckpoint, LeavesScalesOfActivationsAside) {
  const std::vector<TestTensor> tensors = {
      {"w.weight", "F8_E4M3", {2, 2}, "1234"},     {"w.weight_scale", "F32", {}, "1234"},
      {"w.input_scale", "F32", {}, "1234"},        {"a.k_scale", "F32", {1}, "1234"},
      {"a.kv_scale", "F32", {1}, "1234"},          {"a.prob_scale", "F32", {1}, "1234"},
      {"a.prob_output_scale", "F32", {1}, "1234"}, {"a.k_zero_point", "I8", {1}, "1"}};
  const auto source = Folder(tensors, {{"quant_method", "fp8"}}).open();
  EXPECT_EQ(source->names(), std::vector<std::string>{"w.weight"});
  EXPECT_EQ(source->unread(), (std::vector<std::string>{"w.weight", "w.weight_scale"}));
}

TEST(GroupCheckpoint, HasTheWeightsInPlaceOfTheirParts) {
  const GroupQuantized weight(random_values(16 * 128), 16, 128, 64, false, false);
  std::vector<TestTensor> tensors = weight.tensors("a", GroupFormat::gptq);
  tensors.push_back(test::counting_tensor("b.weight", {2, 3}));
  const auto source = Folder(tensors, reference::quantization_config(GroupFormat::gptq, 64)).open();
  EXPECT_EQ(source->names(), (std::vector<std::string>{"a.weight", "b.weight"}));
  EXPECT_TRUE(source->contains("a.weight"));
  EXPECT_EQ(test::listed_types(source->types()), "GPTQ int4, groups of 64 as int4_g64, F32 as f32");
  EXPECT_EQ(list_rounded(source->types()), "");
  EXPECT_EQ(source->group_type("a.weight", {32, 96}), WeightType::int4_g64);
  EXPECT_EQ(source->dtype("a.weight"), DType::f32);
  EXPECT_EQ(source->group_type("b.weight", {0, 3}), std::nullopt);
  EXPECT_EQ(source->dtype("b.weight"), DType::f32);
  EXPECT_EQ(source->unread(),
            (std::vector<std::string>{"a.g_idx", "a.qweight", "a.qzeros", "a.scales", "b.weight"}));
  read_whole(*source, "a.weight", {16, 128});
  EXPECT_EQ(source->unread(), (std::vector<std::string>{"b.weight"}));
  EXPECT_CONTAINS(
      error_of<CheckpointError>([&] {
        source->expect("a.weight", {16, 96}, "hidden_size");
      }),
      "a.qweight holds [16, 128], expected [16, 96] (hidden_size); config.json and the weights must");
}

// Equal bytes have a different meaning in a different format.
TEST(GroupCheckpoint, HasADifferentFingerprintInEachFormat) {
  const GroupQuantized weight(random_values(16 * 128), 16, 128, 64, false, false);
  const Folder one(weight.tensors("a", GroupFormat::gptq),
                   reference::quantization_config(GroupFormat::gptq, 64));
  const Folder two(weight.tensors("a", GroupFormat::gptq),
                   reference::quantization_config(GroupFormat::gptq_v2, 64));
  EXPECT_NE(one.open()->fingerprint(), two.open()->fingerprint());
}

// quantization_fields_test.cc lists all fields and values that are refused.
TEST(GroupCheckpoint, RefusesFieldsThatItDoesNotHonour) {
  const GroupQuantized weight(random_values(16 * 128), 16, 128, 64, true, false);
  nlohmann::json config = reference::quantization_config(GroupFormat::packed, 64);
  EXPECT_NO_THROW(Folder(weight.tensors("w", GroupFormat::packed), config).open());
  config["transform_config"] = {
      {"config_groups",
       {{"R4",
         {{"type", "hadamard"}, {"apply", {{{"targets", {"re:.*down_proj$"}}, {"location", "input"}}}}}}}}};
  EXPECT_CONTAINS(
      error_of<ConfigError>([&] { Folder(weight.tensors("w", GroupFormat::packed), config).open(); }),
      "transform_config.config_groups.R4.apply.0.location of compressed-tensors must be");
}

// Rules of GPTQModel may do so. The shapes of scales and zero points show the bits.
TEST(GroupCheckpoint, HoldsMatricesOfBothWidthsIfRulesChangeBits) {
  const std::vector<float> values = random_values(kRows * 384);
  for (const GroupFormat format : {GroupFormat::awq, GroupFormat::gptq, GroupFormat::gptq_v2}) {
    SCOPED_TRACE(name_of(format));
    const GroupQuantized four(values, kRows, 384, 64, false, false, 4);
    const GroupQuantized eight(values, kRows, 384, 128, false, false, 8);
    std::vector<TestTensor> tensors = four.tensors("layers.0", format);
    for (const TestTensor& tensor : eight.tensors("layers.1", format)) tensors.push_back(tensor);
    nlohmann::json config = reference::quantization_config(format, 64);
    config["dynamic"] = {{R"(+:.*\.1$)", {{"bits", 8}, {"group_size", 128}}}};
    const Folder folder(tensors, config);
    const auto source = folder.open();
    const TensorSlice all{{0, kRows}, {0, 384}};
    EXPECT_EQ(source->group_type("layers.0.weight", all.columns), WeightType::int4_g64);
    EXPECT_EQ(source->group_type("layers.1.weight", all.columns), WeightType::int8_scaled);
    EXPECT_EQ(read_slice(*source, "layers.0.weight", {kRows, 384}, all), four.values());
    EXPECT_EQ(read_slice(*source, "layers.1.weight", {kRows, 384}, all), eight.values());
    config["dynamic"] = nullptr;
    EXPECT_CONTAINS(error_of<CheckpointError>([&] { Folder(tensors, config).open(); }), "expected [")
        << "without the rule, all layers have 4 bits";
  }
}

TEST(GroupCheckpoint, RefusesDamagedParts) {
  const GroupQuantized weight(random_values(16 * 128), 16, 128, 64, false, false);
  const auto error_with = [&](GroupFormat format, const auto& change) {
    std::vector<TestTensor> tensors = weight.tensors("a", format);
    change(tensors);
    const Folder folder(tensors, reference::quantization_config(format, 64));
    return error_of<CheckpointError>([&] { folder.open(); });
  };
  EXPECT_CONTAINS(
      error_with(GroupFormat::awq, [](auto& tensors) { tensors.pop_back(); }),
      "there is no tensor a.scales, expected it with the other tensors of this AWQ weight; download");
  EXPECT_CONTAINS(error_with(GroupFormat::awq,
                             [](auto& tensors) {
                               tensors[1].shape = {1, 2};
                               tensors[1].data.resize(8);
                             }),
                  "a.qzeros is [1, 2], expected [2, 2] (groups, output features / 8)");
  EXPECT_CONTAINS(error_with(GroupFormat::gptq,
                             [](auto& tensors) {
                               tensors[2].dtype = "F64";
                               tensors[2].data.resize(2 * 16 * 8);
                             }),
                  "a.scales has the type F64, expected F16 BF16 F32");
  EXPECT_CONTAINS(error_with(GroupFormat::packed,
                             [](auto& tensors) {
                               tensors[2].data = test::bytes_of(std::vector<std::int64_t>{16, 136});
                             }),
                  "a.weight_packed is [16, 16], expected [16, 17] (output features, input features / 8)");
  EXPECT_CONTAINS(error_with(GroupFormat::gptq, [](auto& tensors) { tensors[3].data[4] = 2; }),
                  "a.g_idx has column 1 in group 2, expected one of 2; download the file again");
  EXPECT_CONTAINS(error_with(GroupFormat::gptq, [](auto& tensors) { tensors[3].data[7] = '\x80'; }),
                  "a.g_idx has column 1 in group -2147483648, expected one of 2; download");
}

}  // namespace
}  // namespace tp
