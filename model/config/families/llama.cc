// Llama, the basis of most families.
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"

#include <cmath>
#include <string>

namespace tp::families {

ModelSpec llama_spec(const CheckpointConfig& config) {
  const NormSpec norm{.eps = static_cast<float>(config.rms_norm_eps)};
  BlockSpec block;
  block.input_norm = norm;
  AttentionSpec attention;
  attention.num_attention_heads = config.num_attention_heads;
  attention.num_key_value_heads = config.num_key_value_heads;
  attention.head_dim = config.head_dim;
  attention.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.head_dim)));
  attention.rope = {config.rope_theta, config.rope_scaling, rotary_dim(config)};
  attention.query_scaling = query_scaling_of(config);
  attention.qkv_bias = config.attention_bias;
  attention.o_bias = config.attention_out_bias.value_or(config.attention_bias);
  if (config.clip_qkv > 0) attention.clip_qkv = static_cast<float>(config.clip_qkv);
  block.attention = attention;
  block.pre_feed_forward_norm = norm;
  block.feed_forward = GatedMlpSpec{.intermediate_size = config.intermediate_size,
                                    .activation = activation_of(config),
                                    .bias = config.mlp_bias};

  ModelSpec spec;
  spec.names = family_of(config.architecture).names;
  spec.vocab_size = config.vocab_size;
  spec.hidden_size = config.hidden_size;
  spec.max_position_embeddings = config.max_position_embeddings;
  spec.blocks.assign(config.num_hidden_layers, block);
  spec.final_norm = norm;
  spec.tied_embeddings = config.tie_word_embeddings;
  spec.logit_scale = static_cast<float>(config.logit_scale);
  return spec;
}

BlockNames llama_block(const std::string& prefix) {
  const std::string mlp = prefix + "mlp.";
  BlockNames names = usual_names(kBlockTensors, prefix);
  names.experts = usual_names(kExpertTensors, mlp);
  names.experts.shared_expert = usual_names(kSharedExpertTensors, mlp + "shared_expert.");
  names.experts.experts = mlp + "experts.";
  names.experts.parts = usual_names(kOneExpertTensors, "");
  return names;
}

TensorNames llama_names() {
  return {.prefix = "model.",
          .embed_tokens = "embed_tokens",
          .embed_positions = {},
          .final_norm = "norm",
          .lm_head = "lm_head",
          .blocks = "layers.",
          .names_of_block = llama_block};
}

// GGUF files of Mistral are also read as Llama; they lack the window.
Family llama() {
  Family family = llama_like("LlamaForCausalLM", llama_spec);
  family.names.gguf.interleaved_query_key = true;
  family.gguf = {.architecture = "llama",
                 .is_of = [](const ModelMetadata& model) { return !model.has_experts(); }};
  return family;
}

}  // namespace tp::families
