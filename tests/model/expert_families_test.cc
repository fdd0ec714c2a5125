// Mixtral, Qwen's experts and DeepSeek: from config.json to the parts of a decoder.
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "model/layers/decoder.h"
#include "model/weights/checkpoint/synthetic_weights.h"
#include "tests/checkpoint/checkpoint_files.h"

#include <cmath>

#include <gtest/gtest.h>

namespace tp {
namespace {

using nlohmann::json;
using test::error_of;

DecoderSpec spec_of(const json& config) { return make_spec(parse_config(config.dump(), "config.json")); }

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

// Tens of millions.
std::size_t rounded(std::size_t parameters) { return (parameters + 5000000) / 10000000; }

// What their authors say: 671 B and 37 B; 46.7 B and 12.9 B; 30.5 B and 3.3 B.
TEST(ExpertFamilies, HaveTheParametersThatTheirAuthorsCount) {
  const DecoderSpec v3 = spec_of(deepseek_v3());
  EXPECT_EQ(rounded(count_parameters(v3)), 67103U);
  // With the embedding, of which a token takes one row: 0.9 B.
  EXPECT_EQ(rounded(count_active_parameters(v3)), 3755U);
  EXPECT_EQ(rounded(count_parameters(spec_of(mixtral()))), 4670U);
  EXPECT_EQ(rounded(count_active_parameters(spec_of(mixtral()))), 1288U);
  EXPECT_EQ(rounded(count_parameters(spec_of(qwen3_moe()))), 3053U);
  EXPECT_EQ(rounded(count_active_parameters(spec_of(qwen3_moe()))), 335U);
}

TEST(ExpertFamilies, CacheOfDeepseekV3IsOneAndAHalfPercentOfThatOfItsHeads) {
  const Decoder shape = Decoder::shape_of(spec_of(deepseek_v3()), SyntheticWeights(), {0, 16}, {});
  const kernels::KvLayout layout = shape.kv_layouts(KvType::bf16, 32).front();
  EXPECT_EQ(layout.block_bytes() / 32, 576U * 2);
  const std::size_t of_heads = 128 * (192 + 128) * 2;  // keys and values in bf16
  EXPECT_LE(layout.block_bytes() / 32 * 1000, of_heads * 15);
}

TEST(ExpertFamilies, GiveDeepseeksLayersTheirParts) {
  const DecoderSpec spec = spec_of(deepseek_v3());
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
  const DecoderSpec spec = spec_of(config);
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
  json no_latent = deepseek_v3();
  no_latent.erase("kv_lora_rank");
  EXPECT_EQ(error_of<ConfigError>([&] { spec_of(no_latent); }),
            "kv_lora_rank is not given, which DeepseekV3ForCausalLM needs");
}

}  // namespace
}  // namespace tp
