// Published models, by what their config.json says: how many parameters they have.
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "model/layers/decoder.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using nlohmann::json;

struct Published {
  const char* architecture;
  const char* model;
  std::size_t parameters;
  json config;
};

json sizes(std::size_t hidden, std::size_t intermediate, std::size_t layers, std::size_t heads,
           std::size_t kv_heads, std::size_t vocab) {
  return {{"hidden_size", hidden},        {"intermediate_size", intermediate}, {"num_hidden_layers", layers},
          {"num_attention_heads", heads}, {"num_key_value_heads", kv_heads},   {"vocab_size", vocab}};
}

json with(json config, const json& fields) {
  config.update(fields);
  return config;
}

// Counted by hand from the shapes of the models' tensors, and equal to the sizes that their pages on the
// Hugging Face Hub round. The language model of Gemma 3 4B: Gemma 3 Technical Report, 2025, table 1, has 675
// million parameters in its embedding and 3,209 million others.
std::vector<Published> published() {
  return {
      {"Gemma3ForCausalLM", "google/gemma-3-1b-it", 999885952,
       with(sizes(1152, 6912, 26, 4, 1, 262144), {{"head_dim", 256}})},
      {"Gemma3ForConditionalGeneration",
       "google/gemma-3-4b-it",
       671252480 + 3209010688,
       {{"text_config", {{"hidden_size", 2560}, {"intermediate_size", 10240}, {"num_hidden_layers", 34}}}}},
      {"GlmForCausalLM", "THUDM/glm-4-9b-chat-hf", 9399951360,
       with(sizes(4096, 13696, 40, 32, 2, 151552), {{"head_dim", 128}, {"attention_bias", true}})},
      {"Glm4ForCausalLM", "THUDM/GLM-4-9B-0414", 9400279040,
       with(sizes(4096, 13696, 40, 32, 2, 151552), {{"head_dim", 128}, {"attention_bias", true}})},
      {"SmolLM3ForCausalLM", "HuggingFaceTB/SmolLM3-3B", 3075098624, sizes(2048, 11008, 36, 16, 4, 128256)},
      {"MinistralForCausalLM", "mistralai/Ministral-8B-Instruct-2410", 8019808256,
       with(sizes(4096, 12288, 36, 32, 8, 131072), {{"head_dim", 128}})},
      {"HeliumForCausalLM", "kyutai/helium-1-preview-2b", 2172643840, sizes(2560, 7040, 24, 20, 20, 48000)},
      {"SeedOssForCausalLM", "ByteDance-Seed/Seed-OSS-36B-Instruct", 36151104512,
       sizes(5120, 27648, 64, 80, 8, 155136)},
      {"HunYuanDenseV1ForCausalLM", "tencent/Hunyuan-7B-Instruct", 7504568320,
       with(sizes(4096, 14336, 32, 32, 8, 128167), {{"head_dim", 128}, {"tie_word_embeddings", true}})},
      {"Ernie4_5ForCausalLM", "baidu/ERNIE-4.5-0.3B-PT", 360748032, sizes(1024, 3072, 18, 16, 2, 103424)},
      {"GraniteForCausalLM", "ibm-granite/granite-3.3-2b-instruct", 2533539840,
       with(sizes(2048, 8192, 40, 32, 8, 49159), {{"tie_word_embeddings", true}})},
      {"Olmo2ForCausalLM", "allenai/OLMo-2-1124-7B", 7298617344, sizes(4096, 11008, 32, 32, 32, 100352)},
      {"Olmo3ForCausalLM", "allenai/Olmo-3-1025-7B", 7298011136, sizes(4096, 11008, 32, 32, 32, 100278)},
      {"Exaone4ForCausalLM", "LGAI-EXAONE/EXAONE-4.0-1.2B", 1279391488,
       with(sizes(2048, 4096, 30, 32, 8, 102400),
            {{"tie_word_embeddings", true}, {"sliding_window", nullptr}})},
  };
}

TEST(PublishedModels, HaveAsManyParametersAsTheirFiles) {
  for (Published& model : published()) {
    model.config["architectures"] = {model.architecture};
    const DecoderSpec spec = make_spec(parse_config(model.config.dump(), model.model));
    EXPECT_EQ(count_parameters(spec), model.parameters) << model.model;
  }
}

}  // namespace
}  // namespace tp
