// Configs of trained drafters in all layouts, and rejected kinds and variants.
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/model/config/small_config.h"
#include "tests/reference/drafter_fixture.h"
#include "tests/reference/json_file.h"
#include "tp/error.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using nlohmann::json;
using Places = std::vector<std::size_t>;

json config_of(const std::string& fixture) {
  return reference::read_json(reference::drafter_fixture(fixture).draft / "config.json");
}

DrafterConfig drafter_of(const json& config) { return parse_config(config.dump(), "config.json").drafter; }

template <class E = ConfigError>
std::string error_for(const json& config) {
  return test::error_of<E>([&] { test::spec_of(config); });
}

json changed(json config, const json& changes) {
  config.update(changes);
  return config;
}

TEST(DrafterConfig, CountsLayersAsEachLayoutDoes) {
  const json plain = config_of("eagle3-llama");
  EXPECT_EQ(drafter_of(plain).kind, DrafterKind::eagle3);
  EXPECT_EQ(captured_places(drafter_of(plain), 32), (Places{2, 16, 29}));
  EXPECT_EQ(captured_places(drafter_of(plain), 7), (Places{2, 3, 4}));
  const json list = {{"eagle_aux_hidden_state_layer_ids", {1, 46, 90}}};
  for (const char* const name : {"LlamaForCausalLM", "LlamaForCausalLMEagle3", "Eagle3LlamaForCausalLM"}) {
    const json config = changed(plain, {{"architectures", {name}}});
    EXPECT_EQ(captured_places(drafter_of(changed(config, list)), 94), (Places{1, 46, 90})) << name;
    EXPECT_EQ(captured_places(drafter_of(changed(config, {{"eagle_config", list}})), 94),
              (Places{2, 47, 91}));
    const json both = changed(changed(config, list),
                              {{"eagle_config", {{"eagle_aux_hidden_state_layer_ids", {0, 45, 89}}}}});
    EXPECT_EQ(captured_places(drafter_of(both), 94), (Places{1, 46, 90}));
    EXPECT_CONTAINS(error_for(changed(changed(config, list), {{"eagle_config", list}})),
                    "the list in eagle_config those after 2, 47, 91 layers");
  }
  const json embedding = {{"eagle_config", {{"eagle_aux_hidden_state_layer_ids", {-1, 3}}}}};
  EXPECT_EQ(drafter_of(changed(plain, embedding)).places, (Places{0, 4}));
  EXPECT_EQ(drafter_of(config_of("eagle3-speculators")).places, (Places{1, 4, 6}));
}

TEST(DrafterConfig, RefusesTargetsWithTooFewLayers) {
  const DrafterConfig usual = drafter_of(config_of("eagle3-llama"));
  EXPECT_CONTAINS(test::error_of<ConfigError>([&] { captured_places(usual, 3); }),
                  "expected a target with at least 4 layers, found 3");
  const DrafterConfig listed = drafter_of(config_of("eagle3-speculators"));
  EXPECT_EQ(captured_places(listed, 6), (Places{1, 4, 6}));
  EXPECT_CONTAINS(test::error_of<ConfigError>([&] { captured_places(listed, 5); }),
                  "expected a target with at least 6 layers, found 5");
}

TEST(DrafterConfig, ReadsTheLayerOfSpeculators) {
  const CheckpointConfig config = parse_config(config_of("eagle3-speculators").dump(), "config.json");
  EXPECT_EQ(config.num_attention_heads, 6U);
  EXPECT_EQ(config.intermediate_size, 120U);
  EXPECT_TRUE(config.drafter.norm_before_residual);
  EXPECT_EQ(config.drafter.draft_vocab_size, 80U);
  EXPECT_EQ(kind_of(config), ModelKind::drafter);
  const ModelSpec spec = make_spec(config);
  ASSERT_TRUE(spec.drafter);
  EXPECT_EQ(spec.drafter->streams, 3U);
  EXPECT_EQ(spec.drafter->stream_size, 64U);
  EXPECT_EQ(std::get<AttentionSpec>(spec.blocks.front().attention).input_size, 128U);
  json nameless = config_of("eagle3-speculators");
  nameless["architectures"] = {"Eagle3DraftModel"};
  EXPECT_EQ(drafter_of(nameless).places, (Places{1, 4, 6}));
  nameless.erase("norm_before_residual");
  EXPECT_CONTAINS(error_for(nameless), "expected norm_before_residual, true or false");
}

TEST(DrafterConfig, ReadsBlocksInBothLayouts) {
  const json nested = config_of("dflash-qwen3");
  const DrafterConfig drafter = drafter_of(nested);
  EXPECT_EQ(drafter.kind, DrafterKind::dflash);
  EXPECT_EQ(drafter.places, (Places{2, 4, 6}));
  EXPECT_EQ(drafter.block_size, 6U);
  EXPECT_EQ(drafter.mask_token, 190);
  EXPECT_FALSE(drafter.sample_from_anchor);
  json flat = nested;
  flat.erase("dflash_config");
  flat.update({{"architectures", {"Qwen3DSparkModel"}},
               {"markov_rank", 0},
               {"mask_token_id", 7},
               {"target_layer_ids", {-1, 3}}});
  EXPECT_EQ(drafter_of(flat).kind, DrafterKind::dflash);
  EXPECT_EQ(drafter_of(flat).places, (Places{0, 4}));
  EXPECT_EQ(drafter_of(flat).mask_token, 7);
  EXPECT_TRUE(drafter_of(flat).sample_from_anchor);
  flat["markov_rank"] = 256;
  EXPECT_EQ(drafter_of(flat).kind, DrafterKind::dspark);
  flat["architectures"] = {"Gemma4DSparkModel"};
  EXPECT_CONTAINS(error_for(flat), "found the class Gemma4DSparkModel;");
}

TEST(DrafterConfig, ReadsTheMarkovHead) {
  const json plain = config_of("dspark-qwen3");
  const DrafterConfig drafter = drafter_of(plain);
  EXPECT_EQ(drafter.kind, DrafterKind::dspark);
  EXPECT_EQ(drafter.places, (Places{2, 5, 7}));
  EXPECT_TRUE(drafter.sample_from_anchor);
  EXPECT_EQ(drafter.markov_rank, 12U);
  EXPECT_TRUE(drafter.enable_confidence_head);
  EXPECT_TRUE(drafter.confidence_head_with_markov);
  for (const char* const type : {"gated", "rnn"})
    EXPECT_CONTAINS(error_for(changed(plain, {{"markov_head_type", type}})),
                    "found DSpark with the markov_head_type \"" + std::string(type) + "\";");
  EXPECT_CONTAINS(error_for(changed(plain, {{"markov_rank", 1000000}})), "markov_rank must be at most 65536");
}

TEST(DrafterConfig, SpacesTheLayersOfBlocksAsTheOriginalCode) {
  json config = config_of("dflash-qwen3");
  config["dflash_config"].erase("target_layer_ids");
  const auto places_of = [&](std::size_t layers, std::size_t target_layers) {
    config["num_hidden_layers"] = layers;
    config["layer_types"] = std::vector<std::string>(layers, "full_attention");
    config["num_target_layers"] = target_layers;
    const DrafterConfig drafter = drafter_of(config);
    EXPECT_EQ(captured_streams(drafter), layers);
    return captured_places(drafter, target_layers);
  };
  EXPECT_EQ(places_of(1, 32), (Places{17}));
  EXPECT_EQ(places_of(5, 36), (Places{2, 10, 18, 26, 34}));
  EXPECT_EQ(places_of(3, 9), (Places{2, 5, 7}));  // 3.5 is rounded to even: 4
  EXPECT_EQ(places_of(3, 7), (Places{2, 3, 5}));  // 2.5 is rounded to even: 2
  EXPECT_CONTAINS(test::error_of<ConfigError>([&] { captured_places(drafter_of(config), 8); }),
                  "expected a target with 7 layers (num_target_layers), found 8");
}

TEST(DrafterConfig, RefusesBlocksThatHaveNotBeenCompared) {
  const json plain = config_of("dflash-qwen3");
  const auto nested = [&](const char* key, const json& value) {
    json config = plain;
    config["dflash_config"][key] = value;
    return config;
  };
  EXPECT_CONTAINS(error_for(nested("projector_type", "domino")), "found the projector_type \"domino\";");
  EXPECT_CONTAINS(error_for(nested("projector_type", "dspark")), "found the projector_type \"dspark\";");
  EXPECT_CONTAINS(error_for(nested("conv_kernel_size", 2)), "found DFlash 2 (conv_kernel_size);");
  EXPECT_CONTAINS(error_for(nested("selector_rank", 256)), "found DFlash 2 (selector_rank);");
  EXPECT_CONTAINS(error_for(nested("use_swa", true)), "found use_swa true;");
  EXPECT_CONTAINS(error_for(nested("causal", true)), "found causal true;");
  EXPECT_CONTAINS(error_for(changed(plain, {{"rope_is_neox_style", false}})),
                  "found rope_is_neox_style false;");
  EXPECT_CONTAINS(error_for(changed(plain, {{"input_embedding_scale", 8.0}})),
                  "found input_embedding_scale 8.0;");
  EXPECT_CONTAINS(error_for(changed(plain, {{"block_size", 1}})), "block_size must be in 2..256, found 1");
  EXPECT_CONTAINS(error_for(changed(plain, {{"block_size", 100000}})), "block_size must be in 2..256");
  EXPECT_CONTAINS(error_for<CheckpointError>(nested("mask_token_id", 192)), "mask_token_id");
  json sliding = plain;
  sliding["layer_types"][1] = "sliding_attention";
  EXPECT_CONTAINS(error_for(sliding), "found a layer of the type \"sliding_attention\";");
}

TEST(DrafterConfig, NamesUnsupportedKinds) {
  const json plain = config_of("eagle3-llama");
  const json speculators = config_of("eagle3-speculators");
  const auto refusal_of = [&](const json& config) { return error_for(config); };
  const auto with_class = [&](const char* name) { return changed(plain, {{"architectures", {name}}}); };
  EXPECT_CONTAINS(refusal_of(with_class("DFlash2DraftModel")), "found DFlash 2;");
  EXPECT_CONTAINS(refusal_of(with_class("DominoDraftModel")), "found Domino;");
  EXPECT_CONTAINS(refusal_of(with_class("PEagleLlamaForCausalLM")), "found P-EAGLE;");
  EXPECT_CONTAINS(refusal_of(with_class("EagleLlamaForCausalLM")), "found the class EagleLlamaForCausalLM;");
  EXPECT_CONTAINS(refusal_of(with_class("Qwen3Eagle3Model")),
                  "found EAGLE-3 with a layer of Qwen3 (DeepSpec);");
  EXPECT_CONTAINS(refusal_of(changed(speculators, {{"speculators_model_type", "peagle"}})), "found P-EAGLE;");
  EXPECT_CONTAINS(refusal_of(changed(speculators, {{"speculators_model_type", "mlp"}})),
                  "found speculators_model_type \"mlp\";");
  EXPECT_CONTAINS(refusal_of(changed(
                      plain, {{"architectures", {"LlamaForCausalLMEagle3"}}, {"parallel_drafting", true}})),
                  "found P-EAGLE (parallel_drafting);");
  json qwen = speculators;
  qwen["transformer_layer_config"]["model_type"] = "qwen3";
  EXPECT_CONTAINS(refusal_of(qwen), "found a layer of the model_type \"qwen3\";");
  EXPECT_CONTAINS(refusal_of(changed(plain, {{"num_hidden_layers", 2}})), "found 2 layers;");
  EXPECT_CONTAINS(refusal_of(changed(plain, {{"layer_types", {"sliding_attention"}}})),
                  "found a layer of the type \"sliding_attention\";");
  EXPECT_CONTAINS(refusal_of(changed(plain, {{"eagle_config", {{"use_aux_hidden_state", false}}}})),
                  "eagle_config.use_aux_hidden_state must be true");
}

TEST(DrafterConfig, RefusesHostileValues) {
  const json plain = config_of("eagle3-llama");
  const char* const list = "eagle_aux_hidden_state_layer_ids";
  EXPECT_CONTAINS(error_for<CheckpointError>(changed(plain, {{list, "all"}})), list);
  EXPECT_CONTAINS(error_for<CheckpointError>(changed(plain, {{list, {1, 2.5}}})), "a layer from 0 to 65535");
  EXPECT_CONTAINS(error_for<CheckpointError>(changed(plain, {{list, {-1}}})), "a layer from 0 to 65535");
  EXPECT_CONTAINS(
      error_for<CheckpointError>(changed(plain, {{"eagle_config", {{list, {18446744073709551615U}}}}})),
      "a layer from -1 to 65535");
  EXPECT_CONTAINS(error_for<CheckpointError>(changed(plain, {{list, {18446744073709551615U}}})), list);
  EXPECT_CONTAINS(error_for<CheckpointError>(changed(plain, {{"eagle_config", 5}})), "eagle_config");
  EXPECT_CONTAINS(error_for(changed(plain, {{list, json::array()}})), "must name 1 to 64 layers, found 0");
  EXPECT_CONTAINS(error_for(changed(plain, {{list, std::vector<int>(65, 1)}})), "found 65");
  EXPECT_CONTAINS(error_for(changed(plain, {{"draft_vocab_size", 193}})),
                  "draft_vocab_size must be at most 192, found 193");
  EXPECT_CONTAINS(error_for(changed(plain, {{"target_hidden_size", 2000000000}})),
                  "target_hidden_size must be at most");
  EXPECT_CONTAINS(error_for<CheckpointError>(changed(plain, {{"norm_before_residual", 1}})),
                  "norm_before_residual");
  EXPECT_CONTAINS(error_for<CheckpointError>(changed(config_of("eagle3-speculators"),
                                                     {{"transformer_layer_config", json::array()}})),
                  "transformer_layer_config");
}

}  // namespace
}  // namespace tp
