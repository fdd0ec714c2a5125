// OPT: GPT-2 with two extra rows at the start of the position table, and separate tensors for queries, keys
// and values. opt-350m norms the stream after attention and MLP, and its token vectors are smaller than
// hidden states: it projects them before it adds positions, and projects hidden states before the LM head.
// Source: Zhang et al., OPT, 2022.
#include "model/config/families/common.h"

#include <utility>

namespace tp::families {
namespace {

constexpr std::size_t kFirstLearnedPosition = 2;

BlockNames opt_block(const std::string& prefix) {
  BlockNames names;
  names.input_norm = prefix + "self_attn_layer_norm";
  names.q_proj = prefix + "self_attn.q_proj";
  names.k_proj = prefix + "self_attn.k_proj";
  names.v_proj = prefix + "self_attn.v_proj";
  names.o_proj = prefix + "self_attn.out_proj";
  names.pre_feed_forward_norm = prefix + "final_layer_norm";
  names.up_proj = prefix + "fc1";
  names.down_proj = prefix + "fc2";
  return names;
}

// These norms have the names of the norms before attention and MLP in other OPT models.
BlockNames opt_post_norm_block(const std::string& prefix) {
  BlockNames names = opt_block(prefix);
  std::swap(names.input_norm, names.post_attention_norm);
  std::swap(names.pre_feed_forward_norm, names.post_feed_forward_norm);
  return names;
}

void norm_stream(ModelSpec& spec) {
  for (BlockSpec& block : spec.blocks) {
    block.wiring = BlockSpec::Wiring::post_norm;
    block.input_norm.swap(block.post_attention_norm);
    block.pre_feed_forward_norm.swap(block.post_feed_forward_norm);
  }
  spec.final_norm.reset();
  spec.names.names_of_block = opt_post_norm_block;
}

ModelSpec opt_spec(const CheckpointConfig& config) {
  ModelSpec spec = gpt2_spec(config);
  spec.first_learned_position = kFirstLearnedPosition;
  spec.learned_positions += kFirstLearnedPosition;
  if (!config.do_layer_norm_before) norm_stream(spec);
  if (config.embedding_size == 0 || config.embedding_size == config.hidden_size) return spec;
  spec.embedding_size = config.embedding_size;
  spec.adds_behind_projection = true;
  spec.head_transform = HeadTransformSpec{.size = config.embedding_size, .of_body = true, .bias = false};
  return spec;
}

}  // namespace

Family opt() {
  Family family{
      .architecture = "OPTForCausalLM",
      .fixed_fields = {{"_remove_final_layer_norm", "false"}, {"layer_norm_elementwise_affine", "true"}},
      .make_spec = opt_spec};
  family.defaults.hidden_act = "relu";
  family.defaults.attention_bias = true;
  family.defaults.mlp_bias = true;
  family.defaults.tie_word_embeddings = true;
  family.defaults.use_parallel_residual = false;
  family.names = {.prefix = "model.",
                  .embed_tokens = "decoder.embed_tokens",
                  .embed_positions = "decoder.embed_positions",
                  .embedding_projection = "decoder.project_in",
                  .final_norm = "decoder.final_layer_norm",
                  .lm_head = "lm_head",
                  .head_dense = "decoder.project_out",
                  .blocks = "decoder.layers.",
                  .names_of_block = opt_block};
  return family;
}

}  // namespace tp::families
