// The similar family that the error for an unknown architecture names.
#include "model/config/nearest_family.h"

#include "model/config/config.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"
#include "tests/model/layers/next_token_checkpoint.h"
#include "tests/reference/fixture.h"
#include "tp/error.h"

#include <gtest/gtest.h>

namespace tp {
namespace {

std::vector<std::string> names_in(const std::string& fixture) {
  return SafetensorsCheckpoint::open(reference::fixture(fixture).folder)->names();
}

TEST(NearestFamily, HasASimilarNameAndOtherTensors) {
  std::vector<std::string> tensors = names_in("qwen3");
  EXPECT_EQ(nearest_family("Qwen3SinkForCausalLM", tensors).architecture, "Qwen3ForCausalLM");
  EXPECT_TRUE(nearest_family("Qwen3SinkForCausalLM", tensors).unknown.empty());
  for (const char* layer : {"0", "1"})
    tensors.push_back("model.layers." + std::string(layer) + ".self_attn.sinks");
  const NearestFamily nearest = nearest_family("Qwen3SinkForCausalLM", tensors);
  EXPECT_EQ(nearest.architecture, "Qwen3ForCausalLM");
  EXPECT_EQ(nearest.unknown, (std::vector<std::string>{"self_attn.sinks"}));
  EXPECT_EQ(nearest_family("Qwen3SinkForCausalLM", {}).architecture, "Qwen3ForCausalLM");
}

// Covers separate and stacked experts, prefixes of larger models, and layers outside the model.
TEST(NearestFamily, IsFoundByTensorsUnderAnyName) {
  for (const auto& [fixture, architecture] : {std::pair{"llama-gqa", "LlamaForCausalLM"},
                                              {"deepseek3-yarn", "DeepseekV2ForCausalLM"},
                                              {"qwen35moe", "Qwen3NextForCausalLM"},
                                              {"qwen3next", "Qwen3NextForCausalLM"},
                                              {"bloom-nopre", "BloomForCausalLM"}}) {
    const NearestFamily nearest = nearest_family("SomethingElse", names_in(fixture));
    EXPECT_EQ(nearest.architecture, architecture);
    EXPECT_TRUE(nearest.unknown.empty()) << architecture << " has no " << nearest.unknown.front();
  }
}

// Names of layers may end in numbers. The norm is the model's, but has the name of a block's.
TEST(NearestFamily, IsFoundByNamesWithNumbers) {
  const NearestFamily nearest = nearest_family("SomethingElse", names_in("rwkv7"));
  EXPECT_EQ(nearest.architecture, "RWKV7ForCausalLM");
  EXPECT_EQ(nearest.unknown, (std::vector<std::string>{"pre_norm"}));
}

TEST(NearestFamily, IsEmptyForUnknownTensors) {
  const std::vector<std::string> unknown = {"a.b.weight", "a.c.0.weight"};
  EXPECT_EQ(nearest_family("SomethingElse", unknown).architecture, "");
  EXPECT_EQ(nearest_family("SomethingElse", {}).architecture, "");
}

TEST(NearestFamily, IsPartOfTheErrorOfAnUnknownArchitecture) {
  const reference::Fixture fixture = reference::fixture("qwen3");
  nlohmann::json config = test::config_in(fixture.folder);
  test::Tensors tensors = test::tensors_of(fixture.folder);
  config["architectures"] = {"Qwen3SinkForCausalLM"};
  tensors["model.layers.0.self_attn.sinks"] = {{4}, {0, 0, 0, 0}};
  const test::TemporaryDirectory folder;
  test::write_checkpoint(folder.path(), config, tensors);
  const std::string error = test::error_of<ConfigError>([&] { load_config(folder.path()); });
  EXPECT_CONTAINS(error, "models of the family Qwen3SinkForCausalLM are not supported; supported are ");
  EXPECT_TRUE(error.ends_with("; it is like Qwen3ForCausalLM, but has self_attn.sinks")) << error;
}

}  // namespace
}  // namespace tp
