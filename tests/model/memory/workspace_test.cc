#include "model/memory/workspace.h"

#include "model/config/architectures.h"
#include "model/layers/model.h"
#include "model/weights/synthetic/synthetic_weights.h"
#include "tests/error_of.h"
#include "tp/error.h"

#include <cstdint>

#include <gtest/gtest.h>
#include <omp.h>

namespace tp {
namespace {

TEST(Workspace, GivesTensorsThatBeginOnACacheLineAndDoNotOverlap) {
  Workspace workspace(1000);
  float* end = nullptr;
  for (const std::size_t columns : {1U, 16U, 17U, 40U}) {
    const TensorView<float> tensor = workspace.take(3, columns);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data()) % 64, 0U);
    EXPECT_TRUE(end == nullptr || tensor.data() >= end);
    EXPECT_TRUE(tensor.contiguous());
    end = tensor.data() + tensor.size();
  }
}

TEST(Workspace, FreesAFramesMemoryAtItsEnd) {
  Workspace workspace(160);
  const TensorView<float> kept = workspace.take(1, 16);
  float* first = nullptr;
  for (int layer = 0; layer < 5; ++layer) {
    const Workspace::Frame frame(workspace);
    const TensorView<float> tensor = workspace.take(8, 16);
    if (first == nullptr) first = tensor.data();
    EXPECT_EQ(tensor.data(), first);
  }
  EXPECT_EQ(workspace.take(1, 16).data(), kept.data() + 16);
  EXPECT_EQ(workspace.peak_bytes(), 144 * sizeof(float));
}

TEST(Workspace, RefusesMoreThanItsSizeAndStaysUsable) {
  Workspace workspace(64);
  workspace.take(1, 32);
  EXPECT_EQ(test::error_of<ConfigError>([&] { workspace.take(3, 11); }),
            "a step needs a workspace tensor of [3, 11], but 32 of 64 floats are in use; the step has more "
            "tokens than the engine was made for");
  EXPECT_NO_THROW(workspace.take(2, 16));
}

TEST(Workspace, CountsWithoutMemory) {
  Workspace workspace = Workspace::counting();
  const TensorView<float> tensor = workspace.take(std::size_t{1} << 40, 3);
  EXPECT_TRUE(tensor.empty());
  EXPECT_EQ(tensor.columns_from(1, 2).data(), nullptr);
  EXPECT_EQ(tensor.rows_from(7, 5).rows(), 5U);
  EXPECT_EQ(workspace.peak_bytes(), std::size_t{3 * sizeof(float)} << 40);
}

TEST(Workspace, HasTwoHalvesThatAreAlignedAndDoNotOverlap) {
  Workspace workspace(1000);
  auto halves = workspace.halves();
  const TensorView<float> first = halves[0].take(1, 496);
  const TensorView<float> second = halves[1].take(1, 496);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(second.data()) % 64, 0U);
  EXPECT_GE(second.data(), first.data() + first.size());
  EXPECT_LE(second.data() + second.size(), first.data() + 1000);
  EXPECT_THROW(halves[0].take(1, 1), ConfigError);
}

ModelSpec spec_of_a_small_model() {
  CheckpointConfig config;
  config.architecture = "LlamaForCausalLM";
  config.hidden_size = 64;
  config.intermediate_size = 160;
  config.num_hidden_layers = 3;
  config.num_attention_heads = 8;
  config.num_key_value_heads = 2;
  config.head_dim = 8;
  config.vocab_size = 1000;
  return make_spec(config);
}

TEST(DecoderWorkspace, IsBoundedByTheChunkAndNotByTheSequence) {
  const ModelSpec spec = spec_of_a_small_model();
  const auto floats = [&](std::size_t tokens, std::size_t max_blocks) {
    return Model::shape_of(spec, SyntheticWeights(), {0, 2}, {})
        .workspace_floats({.tokens = tokens, .outputs = tokens, .block_size = 32, .max_blocks = max_blocks});
  };
  EXPECT_LE(floats(512, 32) * 7 / 8, 8 * floats(64, 32));
  // A block of a longer sequence costs a pointer a thread, and nothing else.
  const auto threads = static_cast<std::size_t>(omp_get_max_threads());
  EXPECT_LE(floats(64, 4096) - floats(64, 32), threads * (4096 - 32) * 2 + 64);
}

TEST(DecoderWorkspace, HasRoomForTheLargerHalfTwiceIfStepsAreDivided) {
  const ModelSpec spec = spec_of_a_small_model();
  const auto floats = [&](std::size_t tokens, bool overlaps) {
    return Model::shape_of(spec, SyntheticWeights(), {0, 2}, {})
        .workspace_floats(
            {.tokens = tokens, .outputs = tokens, .block_size = 32, .max_blocks = 32, .overlaps = overlaps});
  };
  EXPECT_EQ(floats(512, true), std::max(floats(512, false), 2 * floats(256, false)));
  EXPECT_EQ(floats(500, true), std::max(floats(500, false), 2 * floats(256, false)));
}

TEST(DecoderWorkspace, DoesNotGrowWithTheNumberOfLayers) {
  ModelSpec spec = spec_of_a_small_model();
  const StepLimits limits{.tokens = 128, .outputs = 128, .block_size = 16, .max_blocks = 64};
  const auto floats = [&] {
    return Model::shape_of(spec, SyntheticWeights(), {0, 1}, {}).workspace_floats(limits);
  };
  const std::size_t three = floats();
  spec.blocks.resize(80, spec.blocks.front());
  EXPECT_EQ(floats(), three);
}

}  // namespace
}  // namespace tp
