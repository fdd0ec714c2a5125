// Configs of families with layer norms, plain MLPs, learned positions and ALiBi.
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "model/layers/model.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/model/config/small_config.h"

#include <cmath>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using nlohmann::json;

ModelSpec spec_of(const std::string& architecture, json fields) {
  fields["architectures"] = {architecture};
  return make_spec(test::parse(fields));
}

AttentionSpec attention_of(const ModelSpec& spec, std::size_t layer = 0) {
  return std::get<AttentionSpec>(spec.blocks.at(layer).attention);
}

json llama_like(std::size_t hidden, std::size_t layers, std::size_t heads, std::size_t kv_heads,
                std::size_t intermediate, std::size_t vocab) {
  return {
      {"hidden_size", hidden},           {"num_hidden_layers", layers},       {"num_attention_heads", heads},
      {"num_key_value_heads", kv_heads}, {"intermediate_size", intermediate}, {"vocab_size", vocab}};
}

json gpt_like(std::size_t hidden, std::size_t layers, std::size_t heads, std::size_t positions,
              std::size_t vocab) {
  return {{"n_embd", hidden},
          {"n_layer", layers},
          {"n_head", heads},
          {"n_positions", positions},
          {"vocab_size", vocab}};
}

json with(json fields, const json& more) {
  if (!more.is_null()) fields.update(more);
  return fields;
}

json small(const std::string& architecture) {
  json fields = llama_like(64, 4, 4, 4, 256, 100);
  fields["architectures"] = {architecture};
  if (architecture == "GPTJForCausalLM") fields["rotary_dim"] = 8;  // 64 by default
  return fields;
}

// Sizes come from each model's config.json on the Hugging Face Hub. Counts come from the Hub's page for
// safetensors files, or from Transformers if the page has none.
TEST(LayerNormFamilies, HaveTheParametersOfPublishedModels) {
  const auto count = [](const std::string& architecture, const json& fields) {
    return count_parameters(spec_of(architecture, fields));
  };
  // OLMo-1B-hf
  EXPECT_EQ(count("OlmoForCausalLM",
                  with(llama_like(2048, 16, 16, 16, 8192, 50304), {{"tie_word_embeddings", true}})),
            1176764416U);
  // starcoder2-3b
  EXPECT_EQ(count("Starcoder2ForCausalLM", llama_like(3072, 30, 24, 2, 12288, 49152)), 3030371328U);
  // stablelm-2-1_6b
  EXPECT_EQ(count("StableLmForCausalLM",
                  with(llama_like(2048, 24, 32, 32, 5632, 100352), {{"use_qkv_bias", true}})),
            1644515328U);
  // c4ai-command-r-v01
  EXPECT_EQ(count("CohereForCausalLM", llama_like(8192, 40, 64, 64, 22528, 256000)), 34980831232U);
  // c4ai-command-r7b-12-2024
  EXPECT_EQ(count("Cohere2ForCausalLM", llama_like(4096, 32, 32, 8, 14336, 256000)), 8028033024U);
  // phi-2
  EXPECT_EQ(count("PhiForCausalLM", llama_like(2560, 32, 32, 32, 10240, 51200)), 2779683840U);
  // gpt-j-6b
  EXPECT_EQ(count("GPTJForCausalLM", gpt_like(4096, 28, 16, 2048, 50400)), 6050882784U);
  // gpt-neo-1.3B
  EXPECT_EQ(count("GPTNeoForCausalLM", {{"hidden_size", 2048},
                                        {"num_layers", 24},
                                        {"num_heads", 16},
                                        {"max_position_embeddings", 2048},
                                        {"vocab_size", 50257}}),
            1315575808U);
  // starcoderbase-1b
  EXPECT_EQ(count("GPTBigCodeForCausalLM", with(gpt_like(2048, 24, 16, 8192, 49152), {{"n_inner", 8192}})),
            1137207296U);
  // opt-125m
  EXPECT_EQ(count("OPTForCausalLM", {{"hidden_size", 768},
                                     {"num_hidden_layers", 12},
                                     {"num_attention_heads", 12},
                                     {"ffn_dim", 3072},
                                     {"vocab_size", 50272}}),
            125239296U);
  // bloom-560m
  EXPECT_EQ(count("BloomForCausalLM",
                  {{"n_embed", 1024}, {"n_layer", 24}, {"num_attention_heads", 16}, {"vocab_size", 250880}}),
            559214592U);
  // mpt-7b
  EXPECT_EQ(
      count("MptForCausalLM", {{"d_model", 4096}, {"n_layers", 32}, {"n_heads", 32}, {"vocab_size", 50432}}),
      6649286656U);
}

// The model cards of these families give only rounded numbers.
TEST(LayerNormFamilies, RoughlyMatchTheModelCardsParameters) {
  const auto billions = [](const std::string& architecture, const json& fields) {
    return static_cast<double>(count_parameters(spec_of(architecture, fields))) / 1e9;
  };
  // Minitron-4B-Base: 4.19 B
  EXPECT_NEAR(
      billions("NemotronForCausalLM", with(llama_like(3072, 32, 24, 8, 9216, 256000), {{"head_dim", 128}})),
      4.19, 0.005);
  // AFM-4.5B: 4.62 B
  EXPECT_NEAR(
      billions("ArceeForCausalLM", with(llama_like(2560, 36, 20, 4, 18432, 128004), {{"head_dim", 128}})),
      4.62, 0.005);
  // Apertus-8B-2509: 8.05 B
  EXPECT_NEAR(billions("ApertusForCausalLM", llama_like(4096, 32, 32, 8, 21504, 131072)), 8.05, 0.005);
}

TEST(LayerNormFamilies, TieEmbeddingsByTheFamilysDefault) {
  for (const auto& [architecture, tied] : {std::pair{"ApertusForCausalLM", false},
                                           {"ArceeForCausalLM", false},
                                           {"BloomForCausalLM", true},
                                           {"CohereForCausalLM", true},
                                           {"Cohere2ForCausalLM", true},
                                           {"GPTBigCodeForCausalLM", true},
                                           {"GPTJForCausalLM", false},
                                           {"GPTNeoForCausalLM", true},
                                           {"MptForCausalLM", true},
                                           {"NemotronForCausalLM", false},
                                           {"OlmoForCausalLM", false},
                                           {"OPTForCausalLM", true},
                                           {"PhiForCausalLM", false},
                                           {"StableLmForCausalLM", false},
                                           {"Starcoder2ForCausalLM", true}})
    EXPECT_EQ(spec_of(architecture, small(architecture)).tied_embeddings, tied) << architecture;
}

// The paper gives the slopes of 8 heads, 1/2 to 1/256. MPT has another maximum.
TEST(LayerNormFamilies, GiveAlibiItsSlopes) {
  const auto slopes = [](const std::string& architecture, std::size_t heads, const json& more) {
    json fields =
        with(small(architecture),
             {{"hidden_size", 16 * heads}, {"num_attention_heads", heads}, {"num_key_value_heads", heads}});
    return attention_of(spec_of(architecture, with(fields, more))).alibi_slopes;
  };
  const std::vector<float> eight = slopes("BloomForCausalLM", 8, {});
  ASSERT_EQ(eight.size(), 8U);
  for (int i = 0; i < 8; ++i) EXPECT_FLOAT_EQ(eight[static_cast<std::size_t>(i)], std::ldexp(1.0F, -i - 1));
  // A number between two powers of two has the slopes of 4 heads, then every second slope of 8.
  const std::vector<float> six = slopes("MptForCausalLM", 6, {});
  const std::vector<float> expected = {1.0F / 4, 1.0F / 16, 1.0F / 64, 1.0F / 256, 1.0F / 2, 1.0F / 8};
  ASSERT_EQ(six.size(), expected.size());
  for (std::size_t i = 0; i < six.size(); ++i) EXPECT_FLOAT_EQ(six[i], expected[i]);
  const std::vector<float> steep = slopes("MptForCausalLM", 8, {{"attn_config", {{"alibi_bias_max", 16}}}});
  for (int i = 0; i < 8; ++i)
    EXPECT_FLOAT_EQ(steep[static_cast<std::size_t>(i)], std::ldexp(1.0F, -2 * (i + 1)));
}

TEST(LayerNormFamilies, ClipQueriesKeysAndValuesIfTheConfigAsks) {
  const json olmo = small("OlmoForCausalLM");
  EXPECT_FALSE(attention_of(spec_of("OlmoForCausalLM", with(olmo, {{"clip_qkv", nullptr}}))).clip_qkv);
  EXPECT_EQ(attention_of(spec_of("OlmoForCausalLM", with(olmo, {{"clip_qkv", 8}}))).clip_qkv, 8.0F);
  const json mpt = with(small("MptForCausalLM"), {{"attn_config", {{"clip_qkv", 6.0}}}});
  EXPECT_EQ(attention_of(spec_of("MptForCausalLM", mpt)).clip_qkv, 6.0F);
  EXPECT_CONTAINS(test::refusal_of(with(olmo, {{"clip_qkv", -1}})), "expected clip_qkv >= 0");
}

TEST(LayerNormFamilies, GiveGptNeoItsWindowsByEitherListOrByDefault) {
  const auto windows = [](const json& more) {
    const ModelSpec spec = spec_of("GPTNeoForCausalLM", with(small("GPTNeoForCausalLM"), more));
    std::vector<std::size_t> result;
    for (std::size_t layer = 0; layer < 4; ++layer)
      result.push_back(attention_of(spec, layer).pattern.window.value_or(0));
    return result;
  };
  using Windows = std::vector<std::size_t>;
  EXPECT_EQ(windows({}), (Windows{0, 256, 0, 256}));
  EXPECT_EQ(windows({{"window_size", 8}, {"attention_layers", {"local", "global", "global", "local"}}}),
            (Windows{8, 0, 0, 8}));
  const json twice = {{{"local", "global"}, 2}};
  EXPECT_EQ(windows({{"attention_types", twice}}), (Windows{256, 0, 256, 0}));
  const auto refusal_of_types = [](const json& types) {
    return test::refusal_of(with(small("GPTNeoForCausalLM"), {{"attention_types", types}}));
  };
  EXPECT_CONTAINS(refusal_of_types({{{"local", "global"}, 3}}),
                  "an entry for every layer, expected 4 (num_hidden_layers), found 6");
  EXPECT_CONTAINS(refusal_of_types({{{"global"}, 2147483647}}), "found 2147483647");
  EXPECT_EQ(windows({{"attention_types", {{json::array(), 2147483647}, {{"local", "global"}, 2}}}}),
            (Windows{256, 0, 256, 0}));
}

TEST(LayerNormFamilies, RotateTheElementsOfGptJsConfig) {
  json fields = gpt_like(512, 2, 4, 128, 100);
  EXPECT_EQ(attention_of(spec_of("GPTJForCausalLM", fields)).rope->rotary_dim, 64U);
  fields["rotary_dim"] = 32;
  EXPECT_EQ(attention_of(spec_of("GPTJForCausalLM", fields)).rope->rotary_dim, 32U);
  fields["rotary_dim"] = 192;
  fields["architectures"] = {"GPTJForCausalLM"};
  EXPECT_CONTAINS(test::refusal_of(fields),
                  "rotary_dim must be an even number of a head's 128 elements, found 192");
}

TEST(LayerNormFamilies, KnowGptBigCodeWithAndWithoutMultiQueryAttention) {
  const json fields = gpt_like(64, 2, 4, 128, 100);
  EXPECT_EQ(attention_of(spec_of("GPTBigCodeForCausalLM", fields)).num_key_value_heads, 1U);
  EXPECT_EQ(attention_of(spec_of("GPTBigCodeForCausalLM", with(fields, {{"multi_query", false}})))
                .num_key_value_heads,
            4U);
}

TEST(LayerNormFamilies, GiveHeadsTheirOwnGainsIfQueriesAndKeysAreNormed) {
  for (const auto& [architecture, field] :
       {std::pair{"CohereForCausalLM", "use_qk_norm"}, {"StableLmForCausalLM", "qk_layernorm"}}) {
    EXPECT_FALSE(attention_of(spec_of(architecture, small(architecture))).query_key_norm) << architecture;
    const ModelSpec spec = spec_of(architecture, with(small(architecture), {{field, true}}));
    ASSERT_TRUE(attention_of(spec).query_key_norm) << architecture;
    EXPECT_TRUE(attention_of(spec).query_key_norm_per_head) << architecture;
    const std::size_t without = count_parameters(spec_of(architecture, small(architecture)));
    EXPECT_EQ(count_parameters(spec) - without, 4U * 2 * 64) << architecture;  // layers, q and k, heads x 16
  }
}

// Every fourth layer has no positions and no window, as in Command R7B, unless layer_types differs.
TEST(LayerNormFamilies, GiveCohere2PositionsInLayersWithAWindowOnly) {
  const auto rotated = [](const json& more) {
    const ModelSpec spec = spec_of("Cohere2ForCausalLM", with(small("Cohere2ForCausalLM"), more));
    std::vector<bool> result;
    for (std::size_t layer = 0; layer < 4; ++layer) {
      const AttentionSpec attention = attention_of(spec, layer);
      EXPECT_EQ(attention.rope.has_value(), attention.pattern.window.has_value());
      result.push_back(attention.rope.has_value());
    }
    return result;
  };
  EXPECT_EQ(rotated({}), (std::vector<bool>{true, true, true, false}));
  EXPECT_EQ(rotated({{"sliding_window_pattern", 2}}), (std::vector<bool>{true, false, true, false}));
  EXPECT_EQ(
      rotated({{"layer_types", {"full_attention", "sliding_attention", "full_attention", "full_attention"}}}),
      (std::vector<bool>{false, true, false, false}));
}

TEST(LayerNormFamilies, RefuseVariantsThatThePartsCannotExpress) {
  const auto refusal = [](const std::string& architecture, const json& more) {
    return test::refusal_of(with(small(architecture), more));
  };
  EXPECT_CONTAINS(refusal("MptForCausalLM", {{"attn_config", {{"qk_ln", true}}}}),
                  "attn_config.qk_ln must be false");
  EXPECT_CONTAINS(refusal("MptForCausalLM", {{"attn_config", {{"softmax_scale", 0.5}}}}),
                  "attn_config.softmax_scale must be null");
  EXPECT_CONTAINS(refusal("BloomForCausalLM", {{"apply_residual_connection_post_layernorm", true}}),
                  "apply_residual_connection_post_layernorm must be false");
  EXPECT_CONTAINS(refusal("Starcoder2ForCausalLM", {{"norm_type", "rms_norm"}}),
                  "norm_type must be \"layer_norm\" for Starcoder2ForCausalLM, found \"rms_norm\"");
  EXPECT_CONTAINS(refusal("ApertusForCausalLM", {{"hidden_act", "silu"}}), "hidden_act must be \"xielu\"");
}

}  // namespace
}  // namespace tp
