// A family of models: everything that the program knows about it. Each is a file of this folder, written as
// its difference from another one; architectures.cc lists them.
#pragma once

#include "model/config/spec.h"
#include "model/config/tensor_names.h"
#include "tp/model_config.h"

#include <cstddef>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace tp {

class ModelMetadata;

// What GGUF files say about a model of a family.
struct GgufFamily {
  std::string architecture;  // general.architecture; empty: no GGUF file is read as this family
  // Where families share an architecture: whether the model is of this one.
  bool (*is_of)(const ModelMetadata& model) = nullptr;
  // The fields of config.json that differ from what gguf_config says for all families. Throws CheckpointError
  // or ConfigError for metadata that cannot be right.
  nlohmann::json (*config)(const ModelMetadata& model) = nullptr;
  bool stores_windows = false;  // files say which layers have a window
  // Where models of the family differ in their tensors' names.
  void (*adapt_names)(const ModelMetadata& model, TensorNames& names) = nullptr;
};

// A field of config.json that may be absent or have this value, as JSON; others describe models that the
// family's parts cannot express.
struct FixedField {
  std::string name;  // "attn_config.qk_ln"
  std::string value;
};

// The language model in a model of several modalities.
struct LanguageModel {
  std::string model_type;  // in text_config
  std::string architecture;
};

struct Family {
  std::string architecture;  // in `architectures` of config.json
  ModelKind kind = ModelKind::decoder;
  std::vector<std::string> aliases{};            // other names there for the same
  std::vector<LanguageModel> language_models{};  // other families that its class may contain
  // What config.json may leave out; numbers that are 0 here it must give.
  ModelConfig defaults{};
  // intermediate_size as a multiple of hidden_size where config.json does not give it; 0: it must.
  std::size_t intermediate_per_hidden = 0;
  std::vector<FixedField> fixed_fields{};
  TensorNames names{};
  // Throws ConfigError for a config that the parts cannot express.
  DecoderSpec (*make_spec)(const ModelConfig& config) = nullptr;
  // Of the layer that predicts the token after the next one, a decoder with one block; null: models have
  // none.
  DecoderSpec (*make_next_token_spec)(const ModelConfig& config) = nullptr;
  GgufFamily gguf{};
};

namespace families {

Family albert();
Family albert_classifier();
Family albert_masked_lm();
Family apertus();
Family arcee();
Family bart();
Family bert();
Family bert_classifier();
Family bert_masked_lm();
Family big_bird();
Family big_bird_classifier();
Family big_bird_masked_lm();
Family bloom();
Family cohere();
Family cohere2();
Family deepseek2();
Family deepseek3();
Family distilbert();
Family distilbert_classifier();
Family distilbert_masked_lm();
Family dots1();
Family dream();
Family embedding_gemma();
Family ernie();
Family ernie_moe();
Family exaone4();
Family falcon();
Family gemma();
Family gemma2();
Family gemma3();
Family gemma3_multimodal();
Family glm();
Family glm4();
Family glm4_moe();
Family glm4_moe_lite();
Family gpt2();
Family gpt_bigcode();
Family gpt_neo();
Family gpt_neox();
Family gpt_oss();
Family gptj();
Family granite();
Family granite_moe();
Family helium();
Family hunyuan();
Family kimi();
Family lfm2();
Family lfm2_moe();
Family llada();
Family llama();
Family llama4();
Family longformer();
Family longformer_classifier();
Family longformer_masked_lm();
Family marian();
Family mbart();
Family minimax_m2();
Family ministral();
Family mistral();
Family mistral3();
Family mistral4();
Family mixtral();
Family modernbert();
Family modernbert_classifier();
Family modernbert_masked_lm();
Family mpnet();
Family mpnet_classifier();
Family mpnet_masked_lm();
Family mpt();
Family muse_glimmer();
Family nemotron();
Family olmo();
Family olmo2();
Family olmo3();
Family olmoe();
Family opt();
Family pegasus();
Family phi();
Family phi3();
Family phimoe();
Family qwen2();
Family qwen2_moe();
Family qwen3();
Family qwen3_moe();
Family qwen3_next();
Family reformer();
Family roberta();
Family roberta_classifier();
Family roberta_masked_lm();
Family sdar();
Family seed_oss();
Family smollm3();
Family stablelm();
Family starcoder2();
Family t5();

}  // namespace families
}  // namespace tp
