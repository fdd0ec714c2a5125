// BART, and similar models: Marian, the original Transformer; mBART and Pegasus, with norms before attention
// and MLP. Sources: Lewis et al., BART, 2019; Junczys-Dowmunt et al., Marian, 2018; Liu et al., Multilingual
// Denoising Pre-training (mBART), 2020; Zhang et al., PEGASUS, 2020.
#include "model/config/families/seq2seq.h"

#include <cmath>
#include <string>

namespace tp::families {
namespace {

constexpr std::size_t kFirstBartPosition = 2;

BlockNames bart_block(const std::string& prefix) {
  const std::string cross = prefix + "encoder_attn.";
  BlockNames names;
  names.input_norm = names.post_attention_norm = prefix + "self_attn_layer_norm";
  names.q_proj = prefix + "self_attn.q_proj";
  names.k_proj = prefix + "self_attn.k_proj";
  names.v_proj = prefix + "self_attn.v_proj";
  names.o_proj = prefix + "self_attn.out_proj";
  names.cross_attention = {.norm = prefix + "encoder_attn_layer_norm",
                           .q_proj = cross + "q_proj",
                           .k_proj = cross + "k_proj",
                           .v_proj = cross + "v_proj",
                           .o_proj = cross + "out_proj"};
  names.pre_feed_forward_norm = names.post_feed_forward_norm = prefix + "final_layer_norm";
  names.up_proj = prefix + "fc1";
  names.down_proj = prefix + "fc2";
  return names;
}

TensorNames bart_names(const std::string& stack) {
  TensorNames names;
  names.prefix = "model.";
  names.embed_tokens = "shared";
  names.embed_positions = stack + "embed_positions";
  names.embedding_norm = stack + "layernorm_embedding";
  names.final_norm = stack + "layer_norm";
  names.lm_head = "lm_head";
  names.lm_head_bias_row = "final_logits_bias";
  names.blocks = stack + "layers.";
  names.names_of_block = bart_block;
  // Checkpoints also store positions that are computed.
  names.buffers = {"coder.embed_tokens.weight", "coder.embed_positions.weight"};
  return names;
}

ModelSpec bart_stack(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  const NormSpec norm = layer_norm_of(config);
  set_plain_mlps(config, spec);
  for (BlockSpec& block : spec.blocks) {
    attention_of(block).rope.reset();
    block.wiring = BlockSpec::Wiring::post_norm;
    block.input_norm.reset();
    block.pre_feed_forward_norm.reset();
    block.post_attention_norm = block.post_feed_forward_norm = norm;
  }
  spec.final_norm.reset();
  spec.embedding_norm = norm;
  spec.learned_positions = config.max_position_embeddings + kFirstBartPosition;
  spec.first_learned_position = kFirstBartPosition;
  if (config.seq2seq.scale_embedding)
    spec.embedding_scale = std::sqrt(static_cast<float>(config.hidden_size));
  spec.lm_head_bias = true;
  return spec;
}

// Moves the norms before attention and the MLP, and adds a final norm.
void norm_before(const CheckpointConfig& config, ModelSpec& spec) {
  for (BlockSpec& block : spec.blocks) {
    block.wiring = BlockSpec::Wiring::sequential;
    block.post_attention_norm.reset();
    block.post_feed_forward_norm.reset();
  }
  set_norms(spec, layer_norm_of(config));
}

void set_sinusoidal(ModelSpec& spec) {
  spec.learned_positions = spec.first_learned_position = 0;
  spec.sinusoidal_positions = true;
  spec.embedding_norm.reset();
}

// `adapt(config, stack)` turns a stack of BART's into one of the family's.
template <class Adapt>
ModelSpec bart_like_spec(const CheckpointConfig& config, const Adapt& adapt) {
  const CheckpointConfig of_encoder = encoder_config(config);
  ModelSpec encoder = bart_stack(of_encoder);
  encoder.names = bart_names("encoder.");
  adapt(of_encoder, encoder);
  make_encoder(encoder);
  ModelSpec spec = bart_stack(config);
  adapt(config, spec);
  add_encoder(std::move(encoder), spec);
  return spec;
}

ModelSpec bart_spec(const CheckpointConfig& config) {
  return bart_like_spec(config, [](const CheckpointConfig&, ModelSpec&) {});
}

ModelSpec mbart_spec(const CheckpointConfig& config) { return bart_like_spec(config, norm_before); }

ModelSpec marian_spec(const CheckpointConfig& config) {
  return bart_like_spec(config, [](const CheckpointConfig&, ModelSpec& spec) { set_sinusoidal(spec); });
}

ModelSpec pegasus_spec(const CheckpointConfig& config) {
  return bart_like_spec(config, [](const CheckpointConfig& of_stack, ModelSpec& spec) {
    norm_before(of_stack, spec);
    set_sinusoidal(spec);
  });
}

Family bart_like(const std::string& architecture, ModelSpec (*make_spec)(const CheckpointConfig&)) {
  Family family = seq2seq_like();
  family.architecture = architecture;
  family.make_spec = make_spec;
  family.names = bart_names("decoder.");
  family.defaults.hidden_act = "gelu";
  family.defaults.attention_bias = true;
  family.defaults.mlp_bias = true;
  family.defaults.max_position_embeddings = 1024;
  return family;
}

}  // namespace

Family bart() { return bart_like("BartForConditionalGeneration", bart_spec); }
Family mbart() { return bart_like("MBartForConditionalGeneration", mbart_spec); }
Family pegasus() { return bart_like("PegasusForConditionalGeneration", pegasus_spec); }

Family marian() {
  Family family = bart_like("MarianMTModel", marian_spec);
  family.fixed_fields = {{"share_encoder_decoder_embeddings", "true"}};
  return family;
}

}  // namespace tp::families
