// config.json as written by transformers 5 gives the same models as older files.
#include "model/config/architectures.h"
#include "tests/expect_contains.h"
#include "tests/model/config/small_config.h"

#include <gtest/gtest.h>

namespace tp {
namespace {

using nlohmann::json;
using test::damage_of;
using test::error_of;
using test::parse;
using test::refusal_of;
using test::small_config;

json with(json config, const json& fields) {
  config.update(fields);
  return config;
}

TEST(NewerConfigs, HaveRopeInOneObjectOrInOneForEachKindOfLayers) {
  const json yarn = {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 64}};
  const CheckpointConfig older = parse(
      with(small_config(), {{"rope_theta", 5e5}, {"partial_rotary_factor", 0.5}, {"rope_scaling", yarn}}));
  const json rope = with(yarn, {{"rope_theta", 5e5}, {"partial_rotary_factor", 0.5}});
  EXPECT_EQ(parse(with(small_config(), {{"rope_parameters", rope}})), older);
  EXPECT_EQ(parse(with(small_config(), {{"rope_parameters", {{"full_attention", rope}}}})), older);
  EXPECT_EQ(parse(with(small_config(), {{"rope_parameters", with(yarn, {{"rope_theta", 5e5}})},
                                        {"partial_rotary_factor", 0.5}})),
            older);
  EXPECT_NE(parse(small_config()), older);
}

TEST(NewerConfigs, HaveTheWindowLayersRopeIfAllLayersHaveAWindow) {
  const json rope = {{"rope_type", "linear"}, {"factor", 2.0}, {"rope_theta", 5e3}};
  const CheckpointConfig config =
      parse(with(small_config(), {{"rope_parameters", {{"sliding_attention", rope}}}}));
  EXPECT_EQ(config.rope_theta, 5e3);
  EXPECT_EQ(config.rope_scaling.factor, 2.0);
}

json small_latent_config() {
  return with(small_config(), {{"architectures", {"DeepseekV3ForCausalLM"}},
                               {"num_key_value_heads", 8},
                               {"q_lora_rank", 32},
                               {"kv_lora_rank", 24},
                               {"qk_nope_head_dim", 8},
                               {"qk_rope_head_dim", 8},
                               {"v_head_dim", 12},
                               {"moe_intermediate_size", 24},
                               {"n_routed_experts", 8},
                               {"num_experts_per_tok", 2}});
}

// Mistral 4's partial_rotary_factor is a share of the whole head, GLM-4.7-Flash's a share of the rotated
// part.
TEST(NewerConfigs, RotateAllOfThePartOfLatentHeadsThatIsRotated) {
  for (const double factor : {0.5, 1.0}) {
    const json inside = {
        {"rope_parameters",
         {{"rope_type", "default"}, {"partial_rotary_factor", factor}, {"rope_theta", 7.0}}}};
    const CheckpointConfig config = parse(with(small_latent_config(), inside));
    EXPECT_EQ(rotary_dim(config), 8U);
    EXPECT_EQ(config.rope_theta, 7.0);
    EXPECT_EQ(rotary_dim(parse(with(small_latent_config(), {{"partial_rotary_factor", factor}}))), 8U);
  }
}

TEST(NewerConfigs, ListTheLayersWithExperts) {
  json config = with(small_latent_config(), {{"num_hidden_layers", 3}, {"first_k_dense_replace", 3}});
  EXPECT_EQ(parse(config).experts.first_k_dense_replace, 3U);
  config["mlp_layer_types"] = {"dense", "sparse", "sparse"};
  EXPECT_EQ(parse(config).experts.first_k_dense_replace, 1U);
  config["mlp_layer_types"] = {"dense", "dense", "dense"};
  EXPECT_EQ(parse(config).experts.first_k_dense_replace, 3U);
  config["mlp_layer_types"] = {"dense", "sparse", "dense"};
  EXPECT_CONTAINS(damage_of(config), "cannot use mlp_layer_types: ");
  EXPECT_CONTAINS(damage_of(config), "expected a list of dense layers and then of sparse ones");
}

TEST(NewerConfigs, NameTheTypeOfWeightsInASeparateField) {
  json config = small_config();
  config["torch_dtype"] = "float32";
  config["dtype"] = "float16";
  EXPECT_EQ(parse(config).torch_dtype, DType::f16);
  config.erase("torch_dtype");
  EXPECT_EQ(parse(config).torch_dtype, DType::f16);
}

TEST(NewerConfigs, HaveObjectsForNumbersThatJsonDoesNotHave) {
  const auto file = [](const std::string& limit) {
    return parse_config("{" + limit + ", " + small_config().dump().substr(1), "config.json");
  };
  const CheckpointConfig bare = file(R"("time_step_limit": [0.0, Infinity])");
  EXPECT_EQ(file(R"("time_step_limit": [0.0, {"__float__": "Infinity"}])"), bare);
  EXPECT_CONTAINS(
      error_of<CheckpointError>([&] { file(R"("attention_multiplier": {"__float__": "Infinity"})"); }),
      "cannot use attention_multiplier: found the string 'Infinity', expected a number");
}

// Python's Infinity, an object for it, and numbers that float32 or a size cannot hold.
TEST(NewerConfigs, TakeEveryFormOfInfinityForNoLimit) {
  const auto file = [](const std::string& field, const std::string& value) {
    json config = small_config();
    config.erase(field);
    return parse_config("{\"" + field + "\": " + value + ", " + config.dump().substr(1), "config.json");
  };
  for (const std::string form : {"Infinity", R"({"__float__": "Infinity"})", "1e308", "1e39",
                                 "1000000000000000000000000000000000000001e8"}) {
    SCOPED_TRACE(form);
    for (const char* const field : {"clip_qkv", "attn_logit_softcapping", "final_logit_softcapping",
                                    "sliding_window", "attention_chunk_size"})
      EXPECT_EQ(file(field, form), file(field, "null")) << field;
    EXPECT_EQ(file("max_position_embeddings", form).max_position_embeddings, std::size_t{1} << 20);
  }
  for (const std::string form : {"1000000000000000019884624838656", "9223372036854775807", "2147483648"}) {
    SCOPED_TRACE(form);
    for (const char* const field : {"sliding_window", "attention_chunk_size"})
      EXPECT_EQ(file(field, form), file(field, "null")) << field;
    EXPECT_EQ(file("max_position_embeddings", form).max_position_embeddings, std::size_t{1} << 20);
  }
  EXPECT_EQ(file("clip_qkv", "3e38").clip_qkv, 3e38);
  for (const std::string form : {"1e308", "-1e308"})
    EXPECT_CONTAINS(error_of<CheckpointError>([&] { file("rms_norm_eps", form); }),
                    "expected a number that float32 can hold");
}

TEST(NewerConfigs, SayWhichLanguageModelAModelOfImagesContains) {
  json config = small_latent_config();
  config.erase("architectures");
  const auto architecture_with = [&](const std::string& type) {
    config["model_type"] = type;
    return parse({{"architectures", {"Mistral3ForConditionalGeneration"}},
                  {"model_type", "mistral3"},
                  {"text_config", config}})
        .architecture;
  };
  EXPECT_EQ(architecture_with("mistral4"), "Mistral4ForCausalLM");
  EXPECT_EQ(architecture_with("ministral3"), "Mistral3ForConditionalGeneration");
  EXPECT_EQ(architecture_with("mistral"), "Mistral3ForConditionalGeneration");
}

TEST(NewerConfigs, GrowQueriesByPositionsOfTheFirstContext) {
  json config = with(small_config(), {{"architectures", {"Ministral3ForCausalLM"}},
                                      {"rope_parameters",
                                       {{"rope_type", "yarn"},
                                        {"factor", 16.0},
                                        {"original_max_position_embeddings", 16},
                                        {"llama_4_scaling_beta", 0.1}}}});
  EXPECT_EQ(parse(config).llama_4_scaling_beta, 0.1);
  config["rope_parameters"] = {{"rope_type", "default"}, {"llama_4_scaling_beta", 0.1}};
  EXPECT_CONTAINS(error_of<ConfigError>([&] { make_spec(parse(config)); }),
                  "llama_4_scaling_beta is 0.1, expected a scaled RoPE");
}

// Jina Embeddings 3 has the class of XLM-RoBERTa's body, with other positions. Its heads have no family.
TEST(NewerConfigs, AllowRotaryPositionsInXlmRobertaOnlyWithoutAHead) {
  const auto with_positions = [](const char* architecture, const char* type) {
    return with(
        small_config(),
        {{"architectures", {architecture}}, {"num_key_value_heads", 8}, {"position_embedding_type", type}});
  };
  const json body = with_positions("XLMRobertaModel", "rotary");
  EXPECT_EQ(make_spec(parse(body)).learned_positions, 0U);
  const char* const classifier = "XLMRobertaForSequenceClassification";
  EXPECT_EQ(make_spec(parse(with_positions(classifier, "absolute"))).learned_positions, 256U);
  EXPECT_CONTAINS(
      refusal_of(with_positions(classifier, "rotary")),
      "position_embedding_type must be \"absolute\" for XLMRobertaForSequenceClassification, found "
      "\"rotary\"");
}

}  // namespace
}  // namespace tp
