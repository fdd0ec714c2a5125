// DiffusionGemma's configs: cases that the fixture does not cover, and rejected values.
#include "model/layers/model.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/model/config/small_config.h"
#include "tests/reference/fixture.h"
#include "tp/error.h"

#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using nlohmann::json;

std::filesystem::path diffusion_gemma_folder() {
  return reference::seeded_folder("diffusion", "diffusiongemma");
}

// The fixture's model with these fields; null removes a field.
ModelSpec diffusion_gemma_with(const json& fields, const json& text_fields = {}) {
  json config = json::parse(std::ifstream(diffusion_gemma_folder() / "config.json"));
  if (!fields.empty()) config.merge_patch(fields);
  if (!text_fields.empty()) config["text_config"].merge_patch(text_fields);
  return test::spec_of(config);
}

TEST(DiffusionGemma, IsGemma4WithCanvases) {
  const ModelSpec spec = diffusion_gemma_with({});
  ASSERT_TRUE(spec.diffusion);
  EXPECT_TRUE(spec.diffusion->canvas);
  EXPECT_EQ(spec.diffusion->block_length, 8U);
  EXPECT_EQ(spec.diffusion->mask_token, -1);
  EXPECT_EQ(spec.logit_softcap, 30.0F);
  ASSERT_TRUE(spec.self_conditioning);
  EXPECT_EQ(spec.self_conditioning->mlp.intermediate_size, 80U);
  EXPECT_FALSE(spec.self_conditioning->embedding_norm.gain);
  for (const BlockSpec& block : spec.blocks) {
    EXPECT_TRUE(block.output_scale && block.canvas_output_scale);
    EXPECT_TRUE(block.parallel_experts);
  }
  EXPECT_TRUE(std::get<AttentionSpec>(spec.blocks[2].attention).values_are_keys);
  EXPECT_FALSE(std::get<AttentionSpec>(spec.blocks[0].attention).values_are_keys);
  const BlockNames names = spec.names.names_of_block("model.decoder.layers.3.");
  EXPECT_EQ(names.canvas_output_scale, "model.decoder.layers.3.layer_scalar");
  EXPECT_EQ(names.output_scale, "model.encoder.language_model.layers.3.layer_scalar");
}

TEST(DiffusionGemma, HasTheDefaultsOfItsClass) {
  const ModelSpec spec = diffusion_gemma_with(
      {{"canvas_length", nullptr}}, {{"final_logit_softcapping", nullptr}, {"layer_types", nullptr}});
  EXPECT_EQ(spec.diffusion->block_length, 256U);
  EXPECT_EQ(spec.logit_softcap, 30.0F);
  EXPECT_FALSE(std::get<AttentionSpec>(spec.blocks.back().attention).pattern.window);
}

TEST(DiffusionGemma, RejectsUnsupportedValues) {
  const auto expect = [](const std::string& part, const json& fields, const json& text_fields = {}) {
    const std::string error = test::error_of<ConfigError>([&] { diffusion_gemma_with(fields, text_fields); });
    EXPECT_CONTAINS(error, part);
  };
  expect("tie_word_embeddings must be true", {{"tie_word_embeddings", false}});
  expect("use_bidirectional_attention", {}, {{"use_bidirectional_attention", "all"}});
  expect("attention_k_eq_v must be true", {}, {{"attention_k_eq_v", false}});
  expect("enable_moe_block must be true", {}, {{"enable_moe_block", false}});
  expect("num_kv_shared_layers must be 0", {}, {{"num_kv_shared_layers", 2}});
  expect("hidden_size_per_layer_input must be 0", {}, {{"hidden_size_per_layer_input", 16}});
  expect("num_experts", {}, {{"num_experts", nullptr}});
}

TEST(DiffusionGemma, RefusesCanvasesThatNoStepCanHold) {
  for (const json& length :
       {json(0), json(-8), json(65537), json(4000000000), json("8"), json(8.5), json::array()}) {
    const std::string error = test::error_of<Error>([&] {
      diffusion_gemma_with({{"canvas_length", length}});
    });
    EXPECT_CONTAINS(error, "canvas_length") << length;
  }
  EXPECT_NO_THROW(diffusion_gemma_with({{"canvas_length", 65536}}));
}

TEST(DiffusionGemma, CannotBeDividedIntoStages) {
  const auto source = SafetensorsCheckpoint::open(diffusion_gemma_folder());
  EXPECT_THROW(Model::shape_of(diffusion_gemma_with({}), *source, {0, 1}, {}, {0, 2}), ConfigError);
  EXPECT_TRUE(Model::shape_of(diffusion_gemma_with({}), *source, {0, 1}, {}).reads_soft_embeddings());
}

}  // namespace
}  // namespace tp
