// T5, versions 1.0 and 1.1 (and Flan-T5): a relative position bias, shared by all layers of a stack, instead
// of other positions; unscaled scores; RMS norms. Source: Raffel et al., Exploring the Limits of Transfer
// Learning, 2020.
#include "model/config/families/seq2seq.h"

#include <cmath>
#include <string>

namespace tp::families {
namespace {

constexpr const char* kRelativeBias = "block.0.layer.0.SelfAttention.relative_attention_bias";

// `feed_forward`: the number of the block's MLP, its last part.
BlockNames t5_block(const std::string& prefix, const std::string& feed_forward, bool is_gated) {
  const std::string attention = prefix + "layer.0.SelfAttention.";
  const std::string cross = prefix + "layer.1.EncDecAttention.";
  const std::string mlp = prefix + "layer." + feed_forward + ".DenseReluDense.";
  BlockNames names;
  names.input_norm = prefix + "layer.0.layer_norm";
  names.q_proj = attention + "q";
  names.k_proj = attention + "k";
  names.v_proj = attention + "v";
  names.o_proj = attention + "o";
  names.cross_attention = {.norm = prefix + "layer.1.layer_norm",
                           .q_proj = cross + "q",
                           .k_proj = cross + "k",
                           .v_proj = cross + "v",
                           .o_proj = cross + "o"};
  names.pre_feed_forward_norm = prefix + "layer." + feed_forward + ".layer_norm";
  names.gate_proj = mlp + "wi_0";
  names.up_proj = mlp + (is_gated ? "wi_1" : "wi");
  names.down_proj = mlp + "wo";
  return names;
}

TensorNames t5_names(const std::string& stack) {
  TensorNames names;
  names.embed_tokens = "shared";
  names.relative_bias = stack + kRelativeBias;
  names.final_norm = stack + "final_layer_norm";
  names.lm_head = "lm_head";
  names.blocks = stack + "block.";
  // The last buffer is in early files; their code did not use it either.
  names.buffers = {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight",
                   "EncDecAttention.relative_attention_bias.weight"};
  return names;
}

ModelSpec t5_stack(const CheckpointConfig& config, bool sees_both_directions) {
  ModelSpec spec = llama_spec(config);
  set_norms(spec, {.eps = static_cast<float>(config.layer_norm_eps)});
  if (!config.seq2seq.gated_mlp) set_plain_mlps(config, spec);
  for (BlockSpec& block : spec.blocks) {
    AttentionSpec& attention = attention_of(block);
    attention.rope.reset();
    attention.scale = 1.0F;
    attention.relative_bias = true;
  }
  spec.relative_bias = RelativeBiasSpec{.num_buckets = config.encoder.relative_attention_num_buckets,
                                        .max_distance = config.encoder.relative_attention_max_distance,
                                        .bidirectional = sees_both_directions,
                                        .num_attention_heads = config.num_attention_heads};
  return spec;
}

ModelSpec t5_spec(const CheckpointConfig& config) {
  ModelSpec encoder = t5_stack(encoder_config(config), true);
  encoder.names = t5_names("encoder.");
  encoder.names.names_of_block = config.seq2seq.gated_mlp
                                     ? [](const std::string& prefix) { return t5_block(prefix, "1", true); }
                                     : [](const std::string& prefix) { return t5_block(prefix, "1", false); };
  make_encoder(encoder);

  ModelSpec spec = t5_stack(config, false);
  spec.names = t5_names("decoder.");
  spec.names.names_of_block = config.seq2seq.gated_mlp
                                  ? [](const std::string& prefix) { return t5_block(prefix, "2", true); }
                                  : [](const std::string& prefix) { return t5_block(prefix, "2", false); };
  if (config.tie_word_embeddings)
    spec.logit_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.hidden_size)));
  add_encoder(std::move(encoder), spec);
  return spec;
}

}  // namespace

Family t5() {
  Family family = derived(seq2seq_like(), "T5ForConditionalGeneration", t5_spec);
  family.aliases = {"T5WithLMHeadModel"};
  family.names = t5_names("decoder.");
  family.names.names_of_block = [](const std::string& prefix) { return t5_block(prefix, "2", false); };
  family.defaults.hidden_act = "relu";
  family.defaults.layer_norm_eps = 1e-6;
  family.defaults.max_position_embeddings = 512;
  family.defaults.encoder.relative_attention_num_buckets = 32;
  return family;
}

}  // namespace tp::families
