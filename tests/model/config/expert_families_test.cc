// Mixtral, Qwen's experts and DeepSeek: from config.json to the parts of a decoder.
#include "model/config/config.h"
#include "model/layers/model.h"
#include "model/weights/synthetic/synthetic_weights.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/model/config/small_config.h"
#include "tp/error.h"

#include <cmath>

#include <gtest/gtest.h>

namespace tp {
namespace {

using nlohmann::json;
using test::error_of;
using test::spec_of;

json deepseek_v3() {
  return {{"architectures", {"DeepseekV3ForCausalLM"}},
          {"hidden_size", 7168},
          {"intermediate_size", 18432},
          {"moe_intermediate_size", 2048},
          {"num_hidden_layers", 61},
          {"num_attention_heads", 128},
          {"num_key_value_heads", 128},
          {"q_lora_rank", 1536},
          {"kv_lora_rank", 512},
          {"qk_nope_head_dim", 128},
          {"qk_rope_head_dim", 64},
          {"v_head_dim", 128},
          {"n_routed_experts", 256},
          {"n_shared_experts", 1},
          {"num_experts_per_tok", 8},
          {"n_group", 8},
          {"topk_group", 4},
          {"topk_method", "noaux_tc"},
          {"scoring_func", "sigmoid"},
          {"norm_topk_prob", true},
          {"routed_scaling_factor", 2.5},
          {"first_k_dense_replace", 3},
          {"moe_layer_freq", 1},
          {"num_nextn_predict_layers", 1},
          {"vocab_size", 129280},
          {"max_position_embeddings", 163840},
          {"rope_scaling",
           {{"type", "yarn"},
            {"factor", 40},
            {"original_max_position_embeddings", 4096},
            {"mscale", 1.0},
            {"mscale_all_dim", 1.0}}}};
}

json qwen3_moe() {
  return {{"architectures", {"Qwen3MoeForCausalLM"}},
          {"hidden_size", 2048},
          {"intermediate_size", 6144},
          {"moe_intermediate_size", 768},
          {"num_hidden_layers", 48},
          {"num_attention_heads", 32},
          {"num_key_value_heads", 4},
          {"head_dim", 128},
          {"num_experts", 128},
          {"num_experts_per_tok", 8},
          {"norm_topk_prob", true},
          {"vocab_size", 151936}};
}

json mixtral() {
  return {{"architectures", {"MixtralForCausalLM"}},
          {"hidden_size", 4096},
          {"intermediate_size", 14336},
          {"num_hidden_layers", 32},
          {"num_attention_heads", 32},
          {"num_key_value_heads", 8},
          {"num_local_experts", 8},
          {"num_experts_per_tok", 2},
          {"vocab_size", 32000}};
}

// openai/gpt-oss-20b
json gpt_oss() {
  return {{"architectures", {"GptOssForCausalLM"}},
          {"hidden_size", 2880},
          {"intermediate_size", 2880},
          {"num_hidden_layers", 24},
          {"num_attention_heads", 64},
          {"num_key_value_heads", 8},
          {"head_dim", 64},
          {"num_local_experts", 32},
          {"num_experts_per_tok", 4},
          {"vocab_size", 201088}};
}

// zai-org/GLM-4.5-Air
json glm4_moe() {
  return {{"architectures", {"Glm4MoeForCausalLM"}},
          {"hidden_size", 4096},
          {"intermediate_size", 10944},
          {"moe_intermediate_size", 1408},
          {"num_hidden_layers", 46},
          {"num_attention_heads", 96},
          {"num_key_value_heads", 8},
          {"head_dim", 128},
          {"attention_bias", true},
          {"n_routed_experts", 128},
          {"n_shared_experts", 1},
          {"num_experts_per_tok", 8},
          {"first_k_dense_replace", 1},
          {"num_nextn_predict_layers", 1},
          {"vocab_size", 151552}};
}

// rednote-hilab/dots.llm1.inst
json dots1() {
  return {{"architectures", {"Dots1ForCausalLM"}},
          {"hidden_size", 4096},
          {"intermediate_size", 10944},
          {"moe_intermediate_size", 1408},
          {"num_hidden_layers", 62},
          {"num_attention_heads", 32},
          {"num_key_value_heads", 32},
          {"n_routed_experts", 128},
          {"n_shared_experts", 2},
          {"num_experts_per_tok", 6},
          {"first_k_dense_replace", 1},
          {"norm_topk_prob", true},
          {"routed_scaling_factor", 2.5},
          {"vocab_size", 152064}};
}

// allenai/OLMoE-1B-7B-0924
json olmoe() {
  return {{"architectures", {"OlmoeForCausalLM"}},
          {"hidden_size", 2048},
          {"intermediate_size", 1024},
          {"num_hidden_layers", 16},
          {"num_attention_heads", 16},
          {"num_key_value_heads", 16},
          {"num_experts", 64},
          {"num_experts_per_tok", 8},
          {"vocab_size", 50304}};
}

// ibm-granite/granite-3.0-3b-a800m-base
json granite_moe() {
  return {{"architectures", {"GraniteMoeForCausalLM"}},
          {"hidden_size", 1536},
          {"intermediate_size", 512},
          {"num_hidden_layers", 32},
          {"num_attention_heads", 24},
          {"num_key_value_heads", 8},
          {"num_local_experts", 40},
          {"num_experts_per_tok", 8},
          {"tie_word_embeddings", true},
          {"vocab_size", 49155}};
}

// baidu/ERNIE-4.5-21B-A3B-PT
json ernie_moe() {
  return {{"architectures", {"Ernie4_5_MoeForCausalLM"}},
          {"hidden_size", 2560},
          {"intermediate_size", 12288},
          {"num_hidden_layers", 28},
          {"num_attention_heads", 20},
          {"num_key_value_heads", 4},
          {"moe_num_experts", 64},
          {"moe_k", 6},
          {"moe_num_shared_experts", 2},
          {"moe_intermediate_size", 1536},
          {"moe_layer_start_index", 1},
          {"moe_layer_interval", 1},
          {"use_bias", false},
          {"vocab_size", 103424}};
}

// microsoft/Phi-3.5-MoE-instruct
json phimoe() {
  return {{"architectures", {"PhiMoEForCausalLM"}},
          {"hidden_size", 4096},
          {"intermediate_size", 6400},
          {"num_hidden_layers", 32},
          {"num_attention_heads", 32},
          {"num_key_value_heads", 8},
          {"num_local_experts", 16},
          {"num_experts_per_tok", 2},
          {"attention_bias", true},
          {"lm_head_bias", true},
          {"vocab_size", 32064}};
}

// meta-llama/Llama-4-Scout-17B-16E; omitted fields have their defaults.
json llama4() {
  return {{"architectures", {"Llama4ForConditionalGeneration"}},
          {"text_config",
           {{"interleave_moe_layer_step", 1},
            {"num_local_experts", 16},
            {"no_rope_layers", json::array()},
            {"max_position_embeddings", 10485760},
            {"attn_temperature_tuning", 4},
            {"rope_scaling",
             {{"rope_type", "llama3"},
              {"factor", 16.0},
              {"low_freq_factor", 1.0},
              {"high_freq_factor", 1.0},
              {"original_max_position_embeddings", 8192}}}}}};
}

// Rounds to tens of millions.
std::size_t rounded(std::size_t parameters) { return (parameters + 5000000) / 10000000; }

// The authors give 671 B and 37 B; 46.7 B and 12.9 B; 30.5 B and 3.3 B.
TEST(ExpertFamilies, MatchTheAuthorsParameterCounts) {
  const ModelSpec v3 = spec_of(deepseek_v3());
  EXPECT_EQ(rounded(count_parameters(v3)), 67103U);
  // The count includes the whole embedding: 0.9 B, although a token reads only one row.
  EXPECT_EQ(rounded(count_active_parameters(v3)), 3755U);
  EXPECT_EQ(rounded(count_parameters(spec_of(mixtral()))), 4670U);
  EXPECT_EQ(rounded(count_active_parameters(spec_of(mixtral()))), 1288U);
  EXPECT_EQ(rounded(count_parameters(spec_of(qwen3_moe()))), 3053U);
  EXPECT_EQ(rounded(count_active_parameters(spec_of(qwen3_moe()))), 335U);
}

// 20.91 B, including 3.61 B active without the embedding of 0.58 B (OpenAI, gpt-oss-120b & gpt-oss-20b Model
// Card, 2025, table 1); 106 B and 12 B without the layer for several tokens (GLM-4.5's model card); 142 B and
// 14 B (dots.llm1 Technical Report, 2025).
TEST(ExpertFamilies, MatchTheAuthorsParameterCountsFor2025) {
  EXPECT_EQ(rounded(count_parameters(spec_of(gpt_oss()))), 2091U);
  EXPECT_EQ(rounded(count_active_parameters(spec_of(gpt_oss())) - std::size_t{201088} * 2880), 361U);
  const auto billions = [](std::size_t parameters) { return (parameters + 500000000) / 1000000000; };
  EXPECT_EQ(billions(count_parameters(spec_of(glm4_moe()))), 107U);
  EXPECT_EQ(billions(count_active_parameters(spec_of(glm4_moe()))), 13U);
  EXPECT_EQ(billions(count_parameters(spec_of(dots1()))), 143U);
  EXPECT_EQ(billions(count_active_parameters(spec_of(dots1()))), 14U);
}

// 6.9 B and 1.3 B (OLMoE, 2024); 3.3 B and 0.8 B (its model card: 3B-A800M); 21 B and 3 B (ERNIE 4.5
// Technical Report); 41.9 B and 6.6 B (its model card); 109 B, of which the vision tower is about 1 B, and 17
// B (Meta).
TEST(ExpertFamilies, MatchTheAuthorsParameterCountsForOtherMakers) {
  EXPECT_EQ(rounded(count_parameters(spec_of(olmoe()))), 692U);
  EXPECT_EQ(rounded(count_active_parameters(spec_of(olmoe()))), 128U);
  EXPECT_EQ(rounded(count_parameters(spec_of(granite_moe()))), 330U);
  EXPECT_EQ(rounded(count_active_parameters(spec_of(granite_moe()))), 88U);
  const auto billions = [](std::size_t parameters) { return (parameters + 500000000) / 1000000000; };
  EXPECT_EQ(billions(count_parameters(spec_of(ernie_moe()))), 22U);
  EXPECT_EQ(billions(count_active_parameters(spec_of(ernie_moe()))), 3U);
  EXPECT_EQ(rounded(count_parameters(spec_of(phimoe()))), 4187U);
  EXPECT_EQ(rounded(count_active_parameters(spec_of(phimoe()))), 664U);
  EXPECT_EQ(billions(count_parameters(spec_of(llama4()))), 108U);
  EXPECT_EQ(billions(count_active_parameters(spec_of(llama4()))), 17U);
}

// In Llama 4, every fourth layer sees all positions and has no RoPE.
TEST(ExpertFamilies, GiveLlama4sLayersTheirParts) {
  json config = llama4();
  config["text_config"]["interleave_moe_layer_step"] = 2;
  const ModelSpec spec = spec_of(config);
  ASSERT_EQ(spec.blocks.size(), 48U);
  for (std::size_t layer = 0; layer < 48; ++layer) {
    const auto& attention = std::get<AttentionSpec>(spec.blocks[layer].attention);
    const bool sees_all = layer % 4 == 3;
    EXPECT_EQ(attention.rope.has_value(), !sees_all);
    EXPECT_EQ(attention.query_key_norm.has_value(), !sees_all);
    EXPECT_EQ(attention.query_scaling.has_value(), sees_all);
    EXPECT_EQ(attention.pattern.chunk, sees_all ? std::nullopt : std::optional<std::size_t>(8192));
    const auto* const experts = std::get_if<MixtureOfExpertsSpec>(&spec.blocks[layer].feed_forward);
    ASSERT_EQ(experts != nullptr, layer % 2 == 1);
    if (experts != nullptr)
      EXPECT_EQ(experts->intermediate_size, 8192U);
    else
      EXPECT_EQ(std::get<GatedMlpSpec>(spec.blocks[layer].feed_forward).intermediate_size, 16384U);
  }
}

TEST(ExpertFamilies, CacheOfDeepseekV3IsOneAndAHalfPercentOfThatOfItsHeads) {
  const Model shape = Model::shape_of(spec_of(deepseek_v3()), SyntheticWeights(), {0, 16}, {});
  const kernels::KvLayout layout = shape.kv_layouts(KvType::bf16, 32).front();
  EXPECT_EQ(layout.block_bytes() / 32, 576U * 2);
  const std::size_t of_heads = 128 * (192 + 128) * 2;  // keys and values in bf16
  EXPECT_LE(layout.block_bytes() / 32 * 1000, of_heads * 15);
}

TEST(ExpertFamilies, GiveDeepseeksLayersTheirParts) {
  const ModelSpec spec = spec_of(deepseek_v3());
  EXPECT_EQ(std::get<LatentAttentionSpec>(spec.blocks.front().attention).rope.value().rotary_dim, 64U);
  for (std::size_t layer = 0; layer < 61; ++layer)
    EXPECT_EQ(std::holds_alternative<MixtureOfExpertsSpec>(spec.blocks[layer].feed_forward), layer >= 3);
  const auto& router = std::get<MixtureOfExpertsSpec>(spec.blocks.back().feed_forward).router;
  EXPECT_TRUE(router.correction_bias && router.normalize);
  EXPECT_EQ(router.scoring, RouterSpec::Scoring::sigmoid);
  EXPECT_EQ(router.experts_scoring_group, 2U);
  const double mscale = 0.1 * std::log(40.0) + 1.0;
  EXPECT_FLOAT_EQ(std::get<LatentAttentionSpec>(spec.blocks.front().attention).scale,
                  static_cast<float>(mscale * mscale / std::sqrt(192.0)));
  EXPECT_EQ(spec.names.ignored_blocks, std::vector<std::size_t>{61});
}

TEST(ExpertFamilies, PutQwensExpertsIntoTheLayersThatItsConfigNames) {
  json config = qwen3_moe();
  config["num_hidden_layers"] = 8;
  config["decoder_sparse_step"] = 2;
  config["mlp_only_layers"] = {3, 4};
  const ModelSpec spec = spec_of(config);
  for (std::size_t layer = 0; layer < 8; ++layer) {
    EXPECT_EQ(std::holds_alternative<MixtureOfExpertsSpec>(spec.blocks[layer].feed_forward),
              layer == 1 || layer == 5 || layer == 7)
        << layer;
  }
}

std::string refusal_with(json config, const std::string& field, const json& value) {
  config[field] = value;
  return error_of<ConfigError>([&] { spec_of(config); });
}

TEST(ExpertFamilies, RefuseRoutersThatCannotWork) {
  EXPECT_EQ(refusal_with(mixtral(), "num_experts_per_tok", 9),
            "num_experts_per_tok must be at most the number of experts, 8, found 9");
  EXPECT_EQ(refusal_with(deepseek_v3(), "n_group", 7),
            "n_group must divide the number of experts, 256, found 7");
  EXPECT_EQ(refusal_with(deepseek_v3(), "topk_group", 9),
            "topk_group must be at most n_group, 8, and its groups of 32 experts must hold the 8 of "
            "num_experts_per_tok; found 9");
  json small_groups = deepseek_v3();
  small_groups["n_group"] = 128;
  EXPECT_CONTAINS(refusal_with(small_groups, "topk_group", 3), "its groups of 2 experts must hold the 8");
  EXPECT_CONTAINS(refusal_with(deepseek_v3(), "n_group", 256),
                  "a group must have at least the 2 experts that its score is the sum of, found 1");
  EXPECT_EQ(refusal_with(deepseek_v3(), "topk_method", "random"),
            "topk_method must be greedy, group_limited_greedy or noaux_tc, found \"random\"");
  EXPECT_EQ(refusal_with(deepseek_v3(), "scoring_func", "tanh"),
            "scoring_func must be softmax or sigmoid, found \"tanh\"");
  EXPECT_EQ(refusal_with(deepseek_v3(), "attention_bias", true),
            "attention_bias is not supported for DeepseekV3ForCausalLM; expected false");
  EXPECT_EQ(refusal_with(mixtral(), "hidden_act", "gelu"),
            "hidden_act \"gelu\" is not supported for the experts of MixtralForCausalLM; expected \"silu\"");
  EXPECT_EQ(refusal_with(gpt_oss(), "hidden_act", "relu"),
            "hidden_act \"relu\" is not supported for the experts of GptOssForCausalLM; expected \"silu\"");
  json no_latent = deepseek_v3();
  no_latent.erase("kv_lora_rank");
  EXPECT_EQ(error_of<ConfigError>([&] { spec_of(no_latent); }),
            "kv_lora_rank is not given, which DeepseekV3ForCausalLM needs");
}

}  // namespace
}  // namespace tp
