// Serializes a CheckpointConfig, to send it to other ranks.
#pragma once

#include "model/config/config.h"

#include <boost/serialization/string.hpp>
#include <boost/serialization/vector.hpp>

namespace boost::serialization {

template <class Archive>
void serialize(Archive& archive, tp::RopeScaling& scaling, unsigned /*version*/) {
  archive& scaling.kind& scaling.factor& scaling.low_freq_factor& scaling.high_freq_factor& scaling
      .original_max_position_embeddings& scaling.beta_fast& scaling.beta_slow& scaling.truncate& scaling
      .attention_factor& scaling.score_factor& scaling.short_factor& scaling.long_factor& scaling
      .turning_part;
}

template <class Archive>
void serialize(Archive& archive, tp::CheckpointConfig& config, unsigned /*version*/) {
  archive& config.architecture& config.hidden_size& config.intermediate_size& config.num_hidden_layers& config
      .num_attention_heads& config.num_key_value_heads& config.head_dim& config.vocab_size& config
      .max_position_embeddings& config.rms_norm_eps& config.layer_norm_eps& config.rope_theta& config
      .partial_rotary_factor& config.rope_scaling& config.attention_bias& config.mlp_bias& config
      .tie_word_embeddings& config.hidden_act& config.torch_dtype& config.eos_token_ids;
  archive& config.sliding_window& config.use_sliding_window& config.max_window_layers& config
      .layer_types& config.query_pre_attn_scalar& config.attn_logit_softcapping& config
      .final_logit_softcapping& config.scale_attn_weights& config.scale_attn_by_inverse_layer_idx& config
      .use_parallel_residual& config.do_layer_norm_before& config.alibi& config.alibi_bias_max& config
      .clip_qkv& config.use_qk_norm& config.logit_scale& config.multi_query& config.rotary_dim& config
      .parallel_attn& config.new_decoder_architecture& config.num_ln_in_parallel_attn;
  archive& config.num_experts& config.num_experts_per_tok& config.moe_intermediate_size& config
      .moe_latent_size& config.shared_expert_intermediate_size& config.n_shared_experts& config
      .norm_topk_prob& config.routed_scaling_factor& config.scoring_func& config.topk_method& config
      .n_group& config.topk_group& config.decoder_sparse_step& config.mlp_only_layers& config
      .first_k_dense_replace& config.moe_layer_freq& config.num_nextn_predict_layers& config
      .moe_layers& config.interleave_moe_layer_step& config.intermediate_size_mlp& config
      .moe_layer_start_index& config.moe_layer_end_index& config.moe_layer_interval& config
      .moe_norm_min& config.router_jitter_noise;
  archive& config.lm_head_bias& config.attention_chunk_size& config.attn_temperature_tuning& config
      .attn_scale& config.floor_scale& config.llama_4_scaling_beta;
  archive& config.q_lora_rank& config.kv_lora_rank& config.qk_nope_head_dim& config.qk_rope_head_dim& config
      .v_head_dim& config.rope_interleave;
  archive& config.index_topk& config.index_n_heads& config.index_head_dim& config
      .indexer_rope_interleave& config.indexer_types;
  archive& config.rope_local_base_freq& config.sliding_window_pattern& config.no_rope_layers& config
      .no_rope_layer_interval& config.embedding_multiplier& config.residual_multiplier& config
      .attention_multiplier& config.logits_scaling;
  archive& config.mrope_section& config.full_attention_interval& config.linear_num_key_heads& config
      .linear_num_value_heads& config.linear_key_head_dim& config.linear_value_head_dim& config
      .linear_conv_kernel_dim;
  archive& config.conv_l_cache& config.block_auto_adjust_ff_dim& config.qk_scale_factor& config.post_norm_eps;
  archive& config.mamba_n_heads& config.mamba_d_head& config.mamba_n_groups& config.mamba_d_state& config
      .mamba_d_conv& config.mamba_rms_norm& config.ssm_multipliers& config.ssm_in_multiplier& config
      .ssm_out_multiplier& config.attention_in_multiplier& config.attention_out_multiplier& config
      .key_multiplier& config.mlp_multipliers;
  archive& config.global_head_dim& config.num_global_key_value_heads& config.attention_k_eq_v& config
      .num_kv_shared_layers& config.use_double_wide_mlp& config.hidden_size_per_layer_input& config
      .vocab_size_per_layer_input& config.enable_moe_block;
  archive& config.is_causal& config.use_bidirectional_attention& config.type_vocab_size& config
      .pad_token_id& config.embedding_size& config.num_hidden_groups& config
      .global_attn_every_n_layers& config.relative_attention_num_buckets& config
      .relative_attention_max_distance& config.attention_window& config.block_sparse& config
      .block_size& config.num_random_blocks& config.classifier_pooling& config.classifier_activation& config
      .labels& config.attention_dilation& config.mask_token_id;
  archive& config.attn_layers& config.local_attn_chunk_length& config.local_num_chunks_before& config
      .lsh_attn_chunk_length& config.lsh_num_chunks_before& config.lsh_num_chunks_after& config
      .num_hashes& config.num_buckets& config.hash_seed& config.axial_pos_shape& config.axial_pos_embds_dim;
  archive& config.encoder_layers& config.encoder_attention_heads& config.encoder_intermediate_size& config
      .gated_mlp& config.scale_embedding;
  // Boost 1.74 cannot archive std::optional: -1 stands for nullopt.
  int out_bias = config.attention_out_bias ? int{*config.attention_out_bias} : -1;
  archive& out_bias;
  config.attention_out_bias = out_bias < 0 ? std::nullopt : std::optional(out_bias > 0);
}

}  // namespace boost::serialization
