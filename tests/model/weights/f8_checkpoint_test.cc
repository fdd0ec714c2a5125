// A published DeepSeek-V3 checkpoint: F8 weights with scales, and a layer that only training needs.
#include "model/config/config.h"
#include "model/files/mapped_file.h"
#include "model/weights/open_checkpoint.h"
#include "model/weights/safetensors/safetensors_header.h"
#include "tests/model/layers/model_under_test.h"
#include "tests/model/weights/checkpoint_files.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"

#include <cmath>
#include <cstring>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

using test::bytes_of;
using test::ModelUnderTest;
using test::TestTensor;

// One scale for all of these small tensors, which rounding does not touch.
constexpr float kScale = 0.125F;

// Returns the nearest F8_E4M3 number up to 240, by the format's definition.
std::uint8_t nearest_f8(float value) {
  const float magnitude = std::min(std::fabs(value), 240.0F);
  const int exponent = magnitude == 0.0F ? -6 : std::max(std::ilogb(magnitude), -6);
  const auto eighths = static_cast<int>(std::lround(std::ldexp(magnitude, 3 - exponent)));  // 8 is 1.0
  const int bits = (exponent + 6) * 8 + eighths;  // a carry correctly increases the exponent
  return static_cast<std::uint8_t>(bits | (std::signbit(value) ? 0x80 : 0));
}

float value_of_f8(std::uint8_t bits) {
  const int exponent = bits >> 3 & 15;
  const float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(bits & 7), -9)
                                        : std::ldexp(static_cast<float>(8 + (bits & 7)), exponent - 10);
  return bits >= 0x80 ? -magnitude : magnitude;
}

struct Checkpoints {
  std::vector<TestTensor> f8;
  std::vector<TestTensor> f32;       // values of the f8 tensors
  std::vector<TestTensor> original;  // values before rounding
};

// Converts all projections to F8. Norms, routers, the embedding and the LM head stay, as in the published
// files. The checkpoint also has a tensor of an extra layer after the last one, with which training predicts
// one more token.
Checkpoints converted(const std::filesystem::path& path, std::size_t num_layers) {
  const MappedFile file(path);
  Checkpoints out;
  const SafetensorsHeader header = parse_safetensors_header(file.bytes(), file.name());
  for (const StoredTensor& tensor : header.tensors) {
    std::vector<float> values(tensor.bytes.size() / sizeof(float));
    std::memcpy(values.data(), file.bytes().data() + tensor.bytes.begin, tensor.bytes.size());
    out.original.push_back({tensor.name, "F32", tensor.shape, bytes_of(values)});
    if (!tensor.name.ends_with("_proj.weight") && !tensor.name.ends_with("_with_mqa.weight")) {
      out.f8.push_back({tensor.name, "F32", tensor.shape, bytes_of(values)});
      out.f32.push_back(out.f8.back());
      continue;
    }
    std::vector<std::uint8_t> stored;
    for (float& value : values) {
      stored.push_back(nearest_f8(value / kScale));
      value = value_of_f8(stored.back()) * kScale;
    }
    const std::size_t rows = (tensor.shape[0] + 127) / 128;
    const std::size_t columns = (tensor.shape[1] + 127) / 128;
    out.f8.push_back({tensor.name, "F8_E4M3", tensor.shape, bytes_of(stored)});
    out.f8.push_back({tensor.name + "_scale_inv",
                      "F32",
                      {rows, columns},
                      bytes_of(std::vector<float>(rows * columns, kScale))});
    out.f32.push_back({tensor.name, "F32", tensor.shape, bytes_of(values)});
  }
  out.f8.push_back(test::counting_tensor(fmt::format("model.layers.{}.eh_proj.weight", num_layers), {2, 3}));
  return out;
}

std::vector<float> logits_of(Communicator& comm, const CheckpointConfig& config,
                             const std::vector<TestTensor>& tensors, const std::vector<TokenId>& prompt,
                             std::optional<WeightType> type = WeightType::f32, bool same_bits = false) {
  const test::TemporaryDirectory directory;
  directory.write("model.safetensors", test::safetensors_file(tensors));
  const auto source = open_checkpoint(directory.path());
  ModelSpec spec = make_spec(config);
  spec.same_bits = same_bits;
  ModelUnderTest decoder(comm, spec, *source, {.weights = type});
  return decoder.append(prompt);
}

TEST(F8Checkpoint, GivesTheLogitsOfTheSameNumbersInFloat32) {
  const reference::Fixture fixture = reference::fixture("deepseek3-yarn");
  CheckpointConfig config = load_config(fixture.folder);
  config.num_nextn_predict_layers = 1;
  const Checkpoints stored = converted(fixture.folder / "model.safetensors", config.num_hidden_layers);
  Communicator& comm = test::world();
  const std::vector<float> logits = logits_of(comm, config, stored.f8, fixture.prompt);
  EXPECT_EQ(logits, logits_of(comm, config, stored.f32, fixture.prompt));
  // Three mantissa bits keep a weight to 1/16, so the logits stay similar.
  const std::vector<float> originals = logits_of(comm, config, stored.original, fixture.prompt);
  double squares = 0.0;
  double differences = 0.0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double original = originals[i];
    squares += original * original;
    differences += (logits[i] - original) * (logits[i] - original);
  }
  EXPECT_LE(differences, 0.25 * squares);
}

// Weights are stored as in the file, except for transposed ones. With same bits, activations are not rounded.
TEST(F8Checkpoint, HasTheBitsOfFloat32InItsOwnType) {
  const reference::Fixture fixture = reference::fixture("deepseek3-yarn");
  CheckpointConfig config = load_config(fixture.folder);
  config.num_nextn_predict_layers = 1;
  const std::vector<TestTensor> f8 =
      converted(fixture.folder / "model.safetensors", config.num_hidden_layers).f8;
  Communicator& comm = test::world();
  EXPECT_EQ(logits_of(comm, config, f8, fixture.prompt, std::nullopt, true),
            logits_of(comm, config, f8, fixture.prompt, WeightType::f32, true));
}

}  // namespace
}  // namespace tp
