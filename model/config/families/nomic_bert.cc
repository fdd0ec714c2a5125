// Nomic Embed: BERT with RoPE instead of position vectors, and with gated MLPs (1 and 1.5), or with experts
// in every second layer (2). The config has GPT-2's names. Source: Nussbaum et al., Nomic Embed, 2024, and
// Training Sparse Mixture Of Experts Text Embedding Models, 2025.
#include "model/config/families/encoders.h"
#include "tp/internal/require.h"

#include <algorithm>

namespace tp::families {
namespace {

constexpr const char* kSwiGlu = "swiglu";

bool has_experts(const CheckpointConfig& config, std::size_t layer) {
  const std::size_t every = config.encoder.moe_every_n_layers;
  return every != 0 && layer % every == 1 % every;
}

// The model's code rounds the width of gated MLPs up.
void set_gated_mlps(const CheckpointConfig& config, ModelSpec& spec) {
  constexpr std::size_t kMultiple = 256;
  const std::size_t width = (config.intermediate_size + kMultiple - 1) / kMultiple * kMultiple;
  for (BlockSpec& block : spec.blocks)
    block.feed_forward = GatedMlpSpec{.intermediate_size = width, .bias = config.mlp_bias};
}

void set_nomic_experts(const CheckpointConfig& config, ModelSpec& spec) {
  const MixtureOfExpertsSpec experts{.router = {.num_experts = config.num_experts,
                                                .num_experts_per_tok = config.experts.num_experts_per_tok},
                                     .intermediate_size = config.intermediate_size,
                                     .activation = activation_of(config),
                                     .gated = false,
                                     .output_bias = true};
  set_experts(config, experts, spec, [&](std::size_t layer) { return has_experts(config, layer); });
}

ModelSpec nomic_body(CheckpointConfig config) {
  const bool is_gated = config.hidden_act == kSwiGlu;
  if (is_gated) config.hidden_act = "silu";
  ModelSpec spec = bert_body_with_rope(config);
  if (is_gated) set_gated_mlps(config, spec);
  if (config.encoder.moe_every_n_layers != 0) {
    require<ConfigError>(!is_gated, "moe_every_n_layers must be 0 with the activation {}, found {}", kSwiGlu,
                         config.encoder.moe_every_n_layers);
    set_nomic_experts(config, spec);
  }
  // The original code scales RoPE in longer sequences, by the length of the longest sequence in a batch.
  if (config.encoder.max_trained_positions != 0)
    spec.max_position_embeddings =
        std::min(spec.max_position_embeddings, config.encoder.max_trained_positions);
  return spec;
}

// Gated MLPs have different names for the layers before the activation.
BlockNames nomic_block(const std::string& prefix) {
  BlockNames names = flash_bert_block(prefix, "attn");
  names.up_proj = prefix + "mlp.fc11";
  names.gate_proj = prefix + "mlp.fc12";
  names.experts.router = prefix + "mlp.router.layer";
  names.experts.experts = prefix + "mlp.experts.";
  const std::string stacks = prefix + "mlp.experts.mlp.";
  names.experts.stacks = {.gate_up_proj = {},
                          .gate_up_bias = {},
                          .down_proj = stacks + "w2",
                          .down_bias = {},
                          .gate_proj = stacks + "w1",
                          .up_proj = stacks + "w1",
                          .down_transposed = true};
  names.experts.output_bias = prefix + "mlp.experts.bias";
  return names;
}

BlockNames plain_nomic_block(const std::string& prefix) {
  BlockNames names = flash_bert_block(prefix, "attn");
  names.experts = nomic_block(prefix).experts;
  return names;
}

ModelSpec nomic_spec(const CheckpointConfig& config) {
  ModelSpec spec = nomic_body(config);
  if (config.hidden_act != kSwiGlu) spec.names.names_of_block = plain_nomic_block;
  return spec;
}

nlohmann::json nomic_in_gguf(const ModelMetadata& model) {
  nlohmann::json config = gguf_encoder(model);
  config["hidden_act"] = kSwiGlu;
  return config;
}

Family nomic_like() {
  Family family = bert_like();
  family.fixed_fields = {{"causal", "false"},
                         {"prenorm", "false"},
                         {"parallel_block", "false"},
                         {"use_rms_norm", "false"},
                         {"rotary_emb_interleaved", "false"},
                         {"rotary_emb_fraction", "1.0"},
                         {"rotary_emb_scale_base", "null"},
                         {"scale_attn_by_inverse_layer_idx", "false"},
                         {"expert_choice_router", "false"},
                         {"moe_normalize_expert_weights", "false"},
                         {"num_shared_experts", "0"},
                         {"ffn_div", "1"}};
  family.make_spec = nomic_spec;
  family.names.embedding_norm = "emb_ln";
  family.names.embed_positions = {};
  family.names.blocks = "encoder.layers.";
  family.names.names_of_block = nomic_block;
  set_gguf_post_norms(family.names.gguf.block);
  set_qkv(family.names.gguf.block, "attn_qkv");
  family.defaults.hidden_act = kSwiGlu;
  family.defaults.rope_theta = 1000;
  family.defaults.max_position_embeddings = 2048;
  return family;
}

}  // namespace

std::vector<Family> nomic_bert() {
  return encoder_classes(
      nomic_like(),
      {{ModelKind::encoder, {"NomicBertModel"}, {}, gguf_embedder("nomic-bert", nomic_in_gguf)}});
}

}  // namespace tp::families
