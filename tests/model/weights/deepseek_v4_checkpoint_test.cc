// A published DeepSeek-V4 checkpoint: FP8 layers and FP4 experts, whose scales are powers of two.
#include "model/config/config.h"
#include "model/files/mapped_file.h"
#include "model/weights/open_checkpoint.h"
#include "model/weights/quantized/quantized_layers.h"
#include "model/weights/safetensors/safetensors_header.h"
#include "tests/model/layers/model_under_test.h"
#include "tests/model/weights/checkpoint_files.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"
#include "tp/error.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using test::bytes_of;
using test::ModelUnderTest;
using test::TestTensor;

constexpr float kLevels[] = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};  // values of FP4

// The exponent, plus 127, of the least power of two at which the largest number is at most `max`.
std::uint8_t exponent_for(const float* values, std::size_t count, float max) {
  float largest = 1e-6F;
  for (std::size_t i = 0; i < count; ++i) largest = std::max(largest, std::fabs(values[i]));
  return static_cast<std::uint8_t>(127 + std::lround(std::ceil(std::log2(largest / max))));
}

// A matrix in both forms: as stored, and as the numbers that it stands for.
struct Stored {
  std::vector<TestTensor> tensors;
  std::vector<float> values;
};

// FP8 without subnormal numbers, whose scales are those of blocks.
Stored fp8(const std::string& layer, const std::vector<std::size_t>& shape, std::vector<float> values,
           std::size_t block_rows = 128, std::size_t block_columns = 128) {
  const std::size_t blocks = (shape[1] + block_columns - 1) / block_columns;
  std::vector<float> largest((shape[0] + block_rows - 1) / block_rows * blocks);
  const auto block_of = [&](std::size_t i) {
    return i / shape[1] / block_rows * blocks + i % shape[1] / block_columns;
  };
  for (std::size_t i = 0; i < values.size(); ++i)
    largest[block_of(i)] = std::max(largest[block_of(i)], std::fabs(values[i]));
  std::vector<std::uint8_t> exponents;
  for (const float value : largest) exponents.push_back(exponent_for(&value, 1, 240.0F));
  std::vector<std::uint8_t> elements;
  for (std::size_t i = 0; i < values.size(); ++i) {
    float& value = values[i];
    const int exponent = exponents[block_of(i)];
    const float scaled = std::ldexp(std::fabs(value), 127 - exponent);
    const int power = std::max(scaled == 0.0F ? -6 : std::ilogb(scaled), -6);
    const auto eighths = static_cast<int>(std::lround(std::ldexp(scaled, 3 - power)));  // 8 is 1.0
    const int bits = eighths < 8 ? 0 : (power + 6) * 8 + eighths;
    elements.push_back(static_cast<std::uint8_t>(bits | (std::signbit(value) ? 0x80 : 0)));
    const float magnitude = eighths < 8 ? 0.0F : std::ldexp(static_cast<float>(eighths), power - 3);
    value = std::copysign(std::ldexp(magnitude, exponent - 127), value);
  }
  return {{{layer + ".weight", "F8_E4M3", shape, bytes_of(elements)},
           {layer + ".scale", "F8_E8M0", {largest.size() / blocks, blocks}, bytes_of(exponents)}},
          values};
}

// FP4 in groups of 32. The first element of a byte is in its low half.
Stored fp4(const std::string& layer, const std::vector<std::size_t>& shape, std::vector<float> values) {
  constexpr std::size_t kGroup = 32;
  std::vector<std::uint8_t> bytes(values.size() / 2);
  std::vector<std::uint8_t> scales;
  for (std::size_t begin = 0; begin < values.size(); begin += kGroup) {
    scales.push_back(exponent_for(values.data() + begin, kGroup, 6.0F));
    for (std::size_t i = begin; i < begin + kGroup; ++i) {
      const float scaled = std::ldexp(std::fabs(values[i]), 127 - scales.back());
      const auto nearest =
          std::ranges::min_element(kLevels, {}, [&](float level) { return std::fabs(level - scaled); });
      const auto place = static_cast<unsigned>(nearest - kLevels);
      const unsigned bits = place | (std::signbit(values[i]) ? 8U : 0U);
      bytes[i / 2] = static_cast<std::uint8_t>(bytes[i / 2] | bits << (i % 2 * 4));
      values[i] = std::copysign(std::ldexp(*nearest, scales.back() - 127), values[i]);
    }
  }
  return {{{layer + ".weight", "I8", {shape[0], shape[1] / 2}, bytes_of(bytes)},
           {layer + ".scale", "F8_E8M0", {shape[0], shape[1] / kGroup}, bytes_of(scales)}},
          values};
}

bool is_fp8(const std::string& layer) {
  return layer.find(".shared_experts.") != layer.npos || layer.ends_with(".wq_a") ||
         layer.ends_with(".wq_b") || layer.ends_with(".attn.wkv") || layer.ends_with(".wo_a") ||
         layer.ends_with(".wo_b") || layer.ends_with(".engram.wkv");
}

constexpr const char* kTable = ".engram.embed";

struct Checkpoints {
  std::vector<TestTensor> stored;
  std::vector<TestTensor> f32;  // numbers of `stored`
};

// Experts are FP4, or FP8 like the other layers. Also adds tensors of multi-token prediction, which are
// skipped.
Checkpoints converted(const reference::Fixture& fixture, bool has_fp4) {
  const MappedFile file(fixture.folder / "model.safetensors");
  Checkpoints out;
  const SafetensorsHeader header = parse_safetensors_header(file.bytes(), file.name());
  for (const StoredTensor& tensor : header.tensors) {
    std::string data(reinterpret_cast<const char*>(file.bytes().data()) + tensor.bytes.begin,
                     tensor.bytes.size());
    const TestTensor plain{tensor.name, std::string(tensor.type.name), tensor.shape, data};
    const std::string layer = tensor.name.substr(0, tensor.name.rfind('.'));
    const bool is_expert = layer.find(".ffn.experts.") != layer.npos;
    const bool is_table = layer.ends_with(kTable);
    if (!tensor.name.ends_with(".weight") || (!is_expert && !is_table && !is_fp8(layer))) {
      out.stored.push_back(plain);
      out.f32.push_back(plain);
      continue;
    }
    std::vector<float> values(data.size() / sizeof(float));
    std::memcpy(values.data(), data.data(), data.size());
    const Stored matrix = is_expert && has_fp4 ? fp4(layer, tensor.shape, values)
                          : is_table           ? fp8(layer, tensor.shape, values, 1, 4)
                                               : fp8(layer, tensor.shape, values);
    out.stored.insert(out.stored.end(), matrix.tensors.begin(), matrix.tensors.end());
    out.f32.push_back({tensor.name, "F32", tensor.shape, bytes_of(matrix.values)});
  }
  const Stored more = fp8("mtp.0.attn.wq_a", {2, 4}, std::vector<float>(8, 0.5F));
  out.stored.insert(out.stored.end(), more.tensors.begin(), more.tensors.end());
  return out;
}

nlohmann::json published_config(const reference::Fixture& fixture, bool has_fp4 = true) {
  std::ifstream stream(fixture.folder / "config.json");
  nlohmann::json config = nlohmann::json::parse(stream);
  if (has_fp4) config["expert_dtype"] = "fp4";
  config["quantization_config"] = {{"quant_method", "fp8"},
                                   {"fmt", "e4m3"},
                                   {"scale_fmt", "ue8m0"},
                                   {"activation_scheme", "dynamic"},
                                   {"weight_block_size", {128, 128}}};
  return config;
}

std::vector<float> logits_of(const reference::Fixture& fixture, const nlohmann::json& config,
                             const std::vector<TestTensor>& tensors, std::optional<WeightType> type) {
  const test::TemporaryDirectory directory;
  directory.write("model.safetensors", test::safetensors_file(tensors));
  directory.write("config.json", config.dump());
  if (std::filesystem::exists(fixture.folder / "tokenizer.json"))
    std::filesystem::copy(fixture.folder / "tokenizer.json", directory.path());
  const auto source = open_checkpoint(directory.path());
  ModelSpec spec = make_spec(load_config(directory.path()));
  spec.same_bits = true;
  ModelUnderTest decoder(test::world(), spec, *source, {.weights = type});
  return decoder.append(fixture.prompt);
}

void expect_logits_of_float32(const std::string& name, bool has_fp4) {
  const reference::Fixture fixture = reference::fixture(name);
  const nlohmann::json config = published_config(fixture, has_fp4);
  nlohmann::json plain = config;
  plain.erase("quantization_config");
  const Checkpoints checkpoints = converted(fixture, has_fp4);
  const std::vector<float> expected = logits_of(fixture, plain, checkpoints.f32, WeightType::f32);
  EXPECT_EQ(logits_of(fixture, config, checkpoints.stored, WeightType::f32), expected);
  // Products in the file's types round activations to 8 bits.
  const std::vector<float> found = logits_of(fixture, config, checkpoints.stored, std::nullopt);
  ASSERT_EQ(found.size(), expected.size());
  double differences = 0.0;
  double squares = 0.0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    differences += (found[i] - expected[i]) * (found[i] - expected[i]);
    squares += expected[i] * expected[i];
  }
  EXPECT_LE(differences, 0.0025 * squares) << "5 % of the logits' size";
}

TEST(DeepseekV4Checkpoint, GivesTheLogitsOfTheSameNumbersInFloat32) {
  expect_logits_of_float32("deepseekv4", true);
}

// Its tables have scales for groups of a row's elements. Its rows are too short for FP4.
TEST(DeepseekV41Checkpoint, GivesTheLogitsOfTheSameNumbersInFloat32) {
  expect_logits_of_float32("deepseekv41", false);
}

// The error about a table of [tokens, 2] experts in which the second expert of token 1 is `expert`.
std::string refusal_of_table(std::int64_t expert) {
  const reference::Fixture fixture = reference::fixture("deepseekv4");
  std::vector<TestTensor> tensors = converted(fixture, true).f32;
  const auto table =
      std::ranges::find_if(tensors, [](const TestTensor& some) { return some.name.ends_with(".tid2eid"); });
  table->data.replace(3 * sizeof expert, sizeof expert, bytes_of(std::vector<std::int64_t>{expert}));
  nlohmann::json config = published_config(fixture);
  config.erase("quantization_config");
  return test::error_of<CheckpointError>([&] { logits_of(fixture, config, tensors, WeightType::f32); });
}

// The first expert of token 1 is 1.
TEST(DeepseekV4Checkpoint, RejectsTablesWithUnknownOrEqualExperts) {
  EXPECT_CONTAINS(refusal_of_table(8), "expected numbers of experts, 0 to 7, found 8");
  EXPECT_CONTAINS(refusal_of_table(1), "expected different experts for token 1, found 1 twice");
}

// Sizes without files.
TEST(DeepseekV4Checkpoint, IsDescribedByItsConfig) {
  const reference::Fixture fixture = reference::fixture("deepseekv4");
  const test::TemporaryDirectory directory;
  directory.write("config.json", published_config(fixture).dump());
  const std::vector<QuantizedLayers> layers = find_quantized_layers(directory.path());
  ASSERT_EQ(layers.size(), 2U);
  EXPECT_EQ(layers[0].layout, StoredGroups::Layout::mxfp4);
  EXPECT_TRUE(layers[0].include("layers.1.ffn.experts.3.w1.weight"));
  EXPECT_FALSE(layers[0].include("layers.1.ffn.shared_experts.w1.weight"));
  EXPECT_FALSE(layers[0].include("layers.1.attn.wq_a.weight"));
  EXPECT_TRUE(layers[1].is_e4m3);
  EXPECT_TRUE(layers[1].include("layers.1.ffn.shared_experts.w1.weight"));
  EXPECT_TRUE(layers[1].include("layers.1.attn.wq_a.weight"));
}

}  // namespace
}  // namespace tp
