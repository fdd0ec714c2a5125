// Llama 4: Llama with attention within chunks, except in some layers, which have no RoPE and attend to the
// whole sequence. Experts scale their inputs, not their outputs.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

bool is_chunked(const CheckpointConfig& config, std::size_t layer, bool has_rope) {
  if (config.attention_chunk_size == 0) return false;
  return config.layer_types.empty() ? has_rope : config.layer_types[layer] == "chunked_attention";
}

void set_attention(const CheckpointConfig& config, std::size_t layer, BlockSpec& block) {
  AttentionSpec& attention = attention_of(block);
  const bool has_rope = attention.rope.has_value();
  if (is_chunked(config, layer, has_rope)) attention.pattern.chunk = config.attention_chunk_size;
  if (has_rope && config.use_qk_norm) {
    attention.query_key_norm = block.input_norm;
    attention.query_key_norm->gain = false;
    attention.norms_after_rope = true;
  }
  if (!has_rope && config.attn_temperature_tuning)
    attention.query_scaling = {.factor = config.attn_scale, .step = config.floor_scale, .first = 1};
}

ModelSpec llama4_spec(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  for (BlockSpec& block : spec.blocks) attention_of(block).interleaved_rope = true;
  remove_rope(config, spec);
  MixtureOfExpertsSpec experts = experts_of(config);
  experts.router.scoring = RouterSpec::Scoring::sigmoid;
  experts.weigh_input = true;
  experts.shared_intermediate_size = experts.intermediate_size;
  for (std::size_t layer = 0; layer < spec.blocks.size(); ++layer) {
    set_attention(config, layer, spec.blocks[layer]);
    std::get<GatedMlpSpec>(spec.blocks[layer].feed_forward).intermediate_size =
        config.experts.intermediate_size_mlp == 0 ? config.intermediate_size
                                                  : config.experts.intermediate_size_mlp;
  }
  set_experts(config, experts, spec, [&](std::size_t layer) {
    if (config.experts.moe_layers.empty()) return (layer + 1) % config.experts.interleave_moe_layer_step == 0;
    return std::ranges::find(config.experts.moe_layers, layer) != config.experts.moe_layers.end();
  });
  return spec;
}

BlockNames llama4_block(const std::string& prefix) {
  BlockNames names = llama_block(prefix);
  const std::string mlp = prefix + "feed_forward.";
  names.gate_proj = mlp + "gate_proj";
  names.up_proj = mlp + "up_proj";
  names.down_proj = mlp + "down_proj";
  names.experts.router = mlp + "router";
  names.experts.shared_expert = usual_names(kSharedExpertTensors, mlp + "shared_expert.");
  names.experts.experts = mlp + "experts.";
  names.experts.stacks = {.gate_up_proj = mlp + "experts.gate_up_proj",
                          .gate_up_bias = {},
                          .down_proj = mlp + "experts.down_proj",
                          .down_bias = {},
                          .transposed = true};
  return names;
}

// Only Maverick (128 experts) has no norms of queries and keys. Files do not store this.
nlohmann::json llama4_config(const ModelMetadata& model) {
  const std::uint64_t experts = model.whole("expert_count");
  return {{"num_local_experts", experts},
          {"num_experts_per_tok", model.whole("expert_used_count")},
          {"intermediate_size", model.whole("expert_feed_forward_length")},
          {"intermediate_size_mlp", model.whole("feed_forward_length")},
          {"interleave_moe_layer_step", model.whole_or("interleave_moe_layer_step", 1)},
          {"use_qk_norm", experts != 128}};
}

}  // namespace

Family llama4() {
  Family family{.architecture = "Llama4ForCausalLM",
                .aliases = {"Llama4ForConditionalGeneration"},
                .names = llama_names(),
                .make_spec = llama4_spec};
  family.names.part_prefix = "language_model.";
  family.names.names_of_block = llama4_block;
  family.gguf = {.architecture = "llama4", .config = llama4_config};
  // Llama4TextConfig's defaults: configs of multimodal models may omit these fields.
  family.defaults.hidden_size = 5120;
  family.defaults.intermediate_size = 8192;
  family.defaults.experts.intermediate_size_mlp = 16384;
  family.defaults.num_hidden_layers = 48;
  family.defaults.num_attention_heads = 40;
  family.defaults.num_key_value_heads = 8;
  family.defaults.head_dim = 128;
  family.defaults.vocab_size = 202048;
  family.defaults.max_position_embeddings = 4096 * 32;
  family.defaults.rms_norm_eps = 1e-5;
  family.defaults.rope_theta = 500000;
  family.defaults.num_experts = 16;
  family.defaults.experts.num_experts_per_tok = 1;
  family.defaults.use_qk_norm = true;
  family.defaults.no_rope_layer_interval = 4;
  family.defaults.attention_chunk_size = 8192;
  family.defaults.attn_temperature_tuning = true;
  return family;
}

}  // namespace tp::families
