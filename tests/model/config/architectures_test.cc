#include "model/config/architectures.h"

#include "model/config/config.h"
#include "model/layers/model.h"
#include "model/weights/synthetic/synthetic_weights.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tp/error.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

CheckpointConfig two_blocks() {
  CheckpointConfig config;
  config.architecture = "LlamaForCausalLM";
  config.hidden_size = 512;
  config.intermediate_size = 1024;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 8;
  config.num_key_value_heads = 8;
  config.head_dim = 64;
  config.vocab_size = 100;
  config.tie_word_embeddings = true;
  return config;
}

AttentionSpec attention_of(const ModelSpec& spec, std::size_t layer) {
  return std::get<AttentionSpec>(spec.blocks.at(layer).attention);
}

// The founding texts count 5,244,928 parameters in two blocks of hidden 512, 8 heads and FFN 1024. The
// count covers only the blocks, without embedding, final norm and LM head:
//   2 x (q, k, v, o: 4 x 512 x 512; gate, up, down: 3 x 512 x 1024; two norms: 2 x 512).
TEST(Architectures, CountTheParametersOfTheFoundingTextsExample) {
  const ModelSpec spec = make_spec(two_blocks());
  const std::size_t around_the_blocks = 100 * 512 + 512;
  EXPECT_EQ(count_parameters(spec) - around_the_blocks, 5244928U);
}

TEST(Architectures, CountEmbeddingAndHeadOnceIfTheyAreTied) {
  CheckpointConfig config = two_blocks();
  const std::size_t tied = count_parameters(make_spec(config));
  config.tie_word_embeddings = false;
  EXPECT_EQ(count_parameters(make_spec(config)) - tied, 100U * 512);
}

TEST(Architectures, CountBiases) {
  CheckpointConfig config = two_blocks();
  const std::size_t without = count_parameters(make_spec(config));
  config.attention_bias = true;
  const std::size_t attention = count_parameters(make_spec(config));
  EXPECT_EQ(attention - without, 2U * 4 * 512);
  config.mlp_bias = true;
  EXPECT_EQ(count_parameters(make_spec(config)) - attention, 2U * (2 * 1024 + 512));
}

TEST(Architectures, CountOverRanksIsTheModelPlusWhatIsReplicated) {
  const ModelSpec spec = make_spec(two_blocks());
  for (const std::size_t ranks : {2U, 4U, 8U}) {
    std::size_t total = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      total += Model::shape_of(spec, SyntheticWeights(), {rank, ranks}, {}).parameters();
    }
    const std::size_t norms = (2 * 2 + 1) * 512;  // every rank has the norms
    EXPECT_EQ(total, count_parameters(spec) + (ranks - 1) * norms);
  }
}

TEST(Architectures, ScaleScoresByTheHeadsWidth) {
  const ModelSpec spec = make_spec(two_blocks());
  EXPECT_FLOAT_EQ(attention_of(spec, 0).scale, 0.125F);
  EXPECT_FALSE(attention_of(spec, 0).pattern.window.has_value());
}

TEST(Architectures, RejectUnsupportedFamilies) {
  CheckpointConfig config = two_blocks();
  config.architecture = "Rwkv7ForCausalLM";
  const std::string text = test::error_of<ConfigError>([&] { make_spec(config); });
  EXPECT_EQ(text.find("models of the family Rwkv7ForCausalLM are not supported; supported are "), 0U) << text;
  EXPECT_CONTAINS(text, "LlamaForCausalLM");
}

TEST(Architectures, RefuseAnActivationThatTheyDoNotKnow) {
  CheckpointConfig config = two_blocks();
  config.hidden_act = "quick_gelu";
  EXPECT_EQ(test::error_of<ConfigError>([&] { make_spec(config); }),
            "hidden_act \"quick_gelu\" is not supported for LlamaForCausalLM; supported are silu, gelu, "
            "gelu_new, gelu_pytorch_tanh, relu and relu2");
}

CheckpointConfig parse(nlohmann::json config, const std::string& architecture) {
  config.update({{"architectures", {architecture}}, {"vocab_size", 100}});
  return parse_config(config.dump(), "config.json");
}

nlohmann::json sizes() {
  return {
      {"hidden_size", 64}, {"intermediate_size", 96}, {"num_hidden_layers", 4}, {"num_attention_heads", 4}};
}

std::vector<bool> windows_of(const ModelSpec& spec) {
  std::vector<bool> windows;
  for (const BlockSpec& block : spec.blocks)
    windows.push_back(std::get<AttentionSpec>(block.attention).pattern.window.has_value());
  return windows;
}

TEST(Architectures, GiveTheWindowToTheFamilysLayers) {
  const auto windows = [](const std::string& architecture, nlohmann::json fields) {
    fields.update(sizes());
    return windows_of(make_spec(parse(fields, architecture)));
  };
  const std::vector<bool> none(4, false);
  const std::vector<bool> all(4, true);
  EXPECT_EQ(windows("LlamaForCausalLM", {{"sliding_window", 8}}), none);
  EXPECT_EQ(windows("MistralForCausalLM", {{"sliding_window", 8}}), all);
  EXPECT_EQ(windows("MistralForCausalLM", {{"sliding_window", nullptr}}), none);
  EXPECT_EQ(windows("MistralForCausalLM", {}), all);  // 4096, as in version 0.1
  EXPECT_EQ(windows("Phi3ForCausalLM", {}), none);
  EXPECT_EQ(windows("Qwen2ForCausalLM", {{"sliding_window", 8}, {"max_window_layers", 2}}), none);
  EXPECT_EQ(windows("Qwen2ForCausalLM",
                    {{"use_sliding_window", true}, {"sliding_window", 8}, {"max_window_layers", 3}}),
            (std::vector<bool>{false, false, false, true}));
  EXPECT_EQ(windows("Gemma2ForCausalLM", {}), (std::vector<bool>{true, false, true, false}));
  EXPECT_EQ(
      windows("Gemma2ForCausalLM",
              {{"layer_types", {"full_attention", "full_attention", "full_attention", "sliding_attention"}}}),
      (std::vector<bool>{false, false, false, true}));
}

TEST(Architectures, TieEmbeddingsByTheFamilysDefaultOrTheConfig) {
  for (const auto& [architecture, tied] : {std::pair{"LlamaForCausalLM", false},
                                           {"MistralForCausalLM", false},
                                           {"Qwen2ForCausalLM", false},
                                           {"Qwen3ForCausalLM", false},
                                           {"Phi3ForCausalLM", false},
                                           {"GPTNeoXForCausalLM", false},
                                           {"GemmaForCausalLM", true},
                                           {"Gemma2ForCausalLM", true},
                                           {"GPT2LMHeadModel", true},
                                           {"FalconForCausalLM", true}}) {
    EXPECT_EQ(make_spec(parse(sizes(), architecture)).tied_embeddings, tied) << architecture;
    nlohmann::json config = sizes();
    config["tie_word_embeddings"] = !tied;
    EXPECT_EQ(make_spec(parse(config, architecture)).tied_embeddings, !tied) << architecture;
  }
}

TEST(Architectures, WireGptNeoXBlocksByTheConfig) {
  nlohmann::json config = sizes();
  EXPECT_EQ(make_spec(parse(config, "GPTNeoXForCausalLM")).blocks.front().wiring,
            BlockSpec::Wiring::parallel);
  config["use_parallel_residual"] = false;
  EXPECT_EQ(make_spec(parse(config, "GPTNeoXForCausalLM")).blocks.front().wiring,
            BlockSpec::Wiring::sequential);
}

TEST(Architectures, ScaleGpt2sScoresByTheConfig) {
  nlohmann::json config = {{"n_embd", 64}, {"n_layer", 2}, {"n_head", 4}};
  EXPECT_FLOAT_EQ(attention_of(make_spec(parse(config, "GPT2LMHeadModel")), 1).scale, 0.25F);
  config["scale_attn_by_inverse_layer_idx"] = true;
  EXPECT_FLOAT_EQ(attention_of(make_spec(parse(config, "GPT2LMHeadModel")), 1).scale, 0.125F);
  config["scale_attn_weights"] = false;
  EXPECT_FLOAT_EQ(attention_of(make_spec(parse(config, "GPT2LMHeadModel")), 1).scale, 0.5F);
}

// Released configs name "gelu", but the models were trained with its approximation.
TEST(Architectures, TakeGemmasGeluForTheApproximation) {
  nlohmann::json config = sizes();
  config["hidden_act"] = "gelu";
  const ModelSpec spec = make_spec(parse(config, "GemmaForCausalLM"));
  EXPECT_EQ(std::get<GatedMlpSpec>(spec.blocks.front().feed_forward).activation, Activation::gelu_tanh);
}

}  // namespace
}  // namespace tp
