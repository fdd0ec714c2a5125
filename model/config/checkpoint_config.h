// The contents of a checkpoint's config.json. Fields have the same names as in the file.
#pragma once

#include "model/config/mamba_part.h"
#include "tp/model_config.h"
#include "tp/tensor.h"
#include "tp/token_id.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tp {

// Scaling that extends rotary position embeddings beyond the context length of the original training
// (config.json: rope_scaling).
struct RopeScaling {
  enum class Kind : std::uint8_t { none, linear, llama3, yarn, longrope, proportional };

  Kind kind = Kind::none;
  double factor = 1.0;
  double low_freq_factor = 1.0;   // llama3
  double high_freq_factor = 4.0;  // llama3
  std::size_t original_max_position_embeddings = 0;
  double beta_fast = 32.0;        // yarn
  double beta_slow = 1.0;         // yarn
  bool truncate = true;           // yarn: widen the interpolated range to whole dimensions
  double attention_factor = 1.0;  // yarn, longrope: scales cosines and sines
  double score_factor = 1.0;      // yarn: DeepSeek scales attention scores by the square of this factor
  // longrope: divisors of the frequencies, [rotary_dim / 2]. short_factor applies to sequences of at most
  // original_max_position_embeddings tokens, long_factor to longer sequences.
  std::vector<double> short_factor{};
  std::vector<double> long_factor{};
  // proportional: the part of the pairs that turn, as fast as without scaling. The other pairs do not turn.
  double turning_part = 1.0;

  bool operator==(const RopeScaling&) const = default;
};

// The JSON from which a config was read: a config.json, or the same fields from a GGUF file's metadata.
struct ConfigDocument {
  std::string text;
  std::string file;  // its name in errors

  // Configs from different files are equal if they say the same.
  bool operator==(const ConfigDocument& /*other*/) const { return true; }
};

// A field whose name varies between model families has its Llama name and default here. Ranks read the
// document again (config_archive.h), so every member must follow from it.
struct CheckpointConfig : ModelConfig {
  ConfigDocument document;
  double rms_norm_eps = 1e-6;
  double layer_norm_eps = 1e-5;
  double post_norm_eps = 0.0;  // epsilon of norms after attention and after the MLP; 0: rms_norm_eps
  double rope_theta = 10000.0;
  double partial_rotary_factor = 1.0;
  std::size_t rotary_dim = 0;         // rotated elements per head; 0: set by partial_rotary_factor
  double rope_local_base_freq = 0.0;  // rope_theta in layers with a sliding window; 0: rope_theta
  // How many rotated pairs encode a token's time, height and width. For text, all three equal the token's
  // position.
  std::vector<std::size_t> mrope_section{};
  RopeScaling rope_scaling;
  bool attention_bias = false;
  std::optional<bool> attention_out_bias;  // bias of attention's output projection; unset: attention_bias
  bool mlp_bias = false;
  bool tie_word_embeddings = false;
  std::string hidden_act = "silu";
  DType torch_dtype = DType::f32;

  bool use_sliding_window = true;
  std::size_t max_window_layers = 0;  // number of initial layers without a window
  // [layers] or empty: "full_attention", "sliding_attention", "chunked_attention", "linear_attention", "conv"
  // or "mamba". Layers with one part may also be "mlp" or "moe".
  std::vector<std::string> layer_types{};
  std::size_t sliding_window_pattern = 0;  // without layer_types: every n-th layer has no window
  double query_pre_attn_scalar = 0.0;      // 0: head_dim
  double attn_logit_softcapping = 0.0;     // 0: none
  double final_logit_softcapping = 0.0;    // 0: none
  bool scale_attn_weights = true;
  bool scale_attn_by_inverse_layer_idx = false;
  bool use_parallel_residual = true;
  bool do_layer_norm_before = true;  // false: norms follow attention and the MLP
  bool alibi = false;
  std::vector<std::size_t> no_rope_layers{};  // [layers] or empty; 1: RoPE, 0: no RoPE
  std::size_t no_rope_layer_interval = 0;     // without no_rope_layers: every n-th layer has no RoPE
  double alibi_bias_max = 8.0;
  double clip_qkv = 0.0;  // 0: none
  bool use_qk_norm = false;
  double logit_scale = 1.0;
  bool multi_query = false;  // true: one KV head
  bool parallel_attn = true;
  bool new_decoder_architecture = false;
  std::size_t num_ln_in_parallel_attn = 0;  // with new_decoder_architecture only; 0 means 2

  double embedding_multiplier = 1.0;
  double residual_multiplier = 1.0;   // scales the outputs of attention and MLP
  double attention_multiplier = 0.0;  // scales attention scores; 0: 1 / sqrt(head_dim)
  double logits_scaling = 1.0;        // divides logits
  double qk_scale_factor = 1.0;       // scales attention scores, in addition to 1 / sqrt(head_dim)

  // Mixture of experts.
  std::size_t num_experts_per_tok = 0;
  std::size_t moe_intermediate_size = 0;
  std::size_t moe_latent_size = 0;                  // 0: none
  std::size_t shared_expert_intermediate_size = 0;  // 0: none
  std::size_t n_shared_experts = 0;
  bool norm_topk_prob = false;
  double routed_scaling_factor = 1.0;
  std::string scoring_func = "softmax";
  std::string topk_method = "greedy";
  std::size_t n_group = 1;
  std::size_t topk_group = 1;
  std::size_t decoder_sparse_step = 1;
  std::vector<std::size_t> mlp_only_layers{};
  std::size_t first_k_dense_replace = 0;
  std::size_t moe_layer_freq = 1;
  std::size_t num_nextn_predict_layers = 0;  // multi-token prediction layers, stored after the other layers
  std::vector<std::size_t> moe_layers{};     // layers with experts; empty: use interleave_moe_layer_step
  std::size_t interleave_moe_layer_step = 1;
  std::size_t intermediate_size_mlp = 0;  // intermediate_size of layers without experts; 0: intermediate_size
  std::size_t moe_layer_start_index = 0;
  std::size_t moe_layer_end_index = SIZE_MAX;  // last layer with experts; SIZE_MAX: no limit
  std::size_t moe_layer_interval = 1;
  double moe_norm_min = 0.0;
  double router_jitter_noise = 0.0;

  bool lm_head_bias = false;
  std::size_t attention_chunk_size = 0;  // 0: none
  bool attn_temperature_tuning = false;
  double attn_scale = 0.1;
  double floor_scale = 8192.0;
  double llama_4_scaling_beta = 0.0;  // Mistral: how fast queries grow with their position; 0: no growth

  // Latent attention.
  std::size_t q_lora_rank = 0;  // 0: none
  std::size_t kv_lora_rank = 0;
  std::size_t qk_nope_head_dim = 0;
  std::size_t qk_rope_head_dim = 0;
  std::size_t v_head_dim = 0;
  bool rope_interleave = true;

  // Indexers, which choose the positions that latent attention reads.
  std::size_t index_topk = 0;  // 0: no indexers
  std::size_t index_n_heads = 0;
  std::size_t index_head_dim = 0;
  bool indexer_rope_interleave = false;
  // [layers] or empty (all "full"): "shared" layers use the choice of the last "full" layer.
  std::vector<std::string> indexer_types{};

  // Layers with a recurrence instead of attention ("linear_attention" in layer_types).
  std::size_t full_attention_interval = 0;  // without layer_types: every n-th layer has attention
  std::size_t linear_num_key_heads = 0;
  std::size_t linear_num_value_heads = 0;
  std::size_t linear_key_head_dim = 0;
  std::size_t linear_value_head_dim = 0;
  std::size_t linear_conv_kernel_dim = 0;

  // Layers with a short convolution instead of attention ("conv" in layer_types).
  std::size_t conv_l_cache = 0;           // width in tokens, including the current token; 0: no such layers
  bool block_auto_adjust_ff_dim = false;  // whether intermediate_size was computed from block_ff_dim

  MambaConfig mamba;
  double attention_in_multiplier = 1.0;  // factors of attention's input and output
  double attention_out_multiplier = 1.0;
  double key_multiplier = 1.0;
  std::vector<double> mlp_multipliers{};  // factors of the gate and of the output; empty: 1

  // Layers without a window, if they differ from layers with a window.
  std::size_t global_head_dim = 0;             // 0: head_dim
  std::size_t num_global_key_value_heads = 0;  // 0: num_key_value_heads
  bool attention_k_eq_v = false;               // use keys as values
  // The last layers use the keys and values of the last earlier layer of the same type.
  std::size_t num_kv_shared_layers = 0;
  bool use_double_wide_mlp = false;             // twice the intermediate_size in these layers
  std::size_t hidden_size_per_layer_input = 0;  // 0: no inputs per layer
  std::size_t vocab_size_per_layer_input = 0;
  bool enable_moe_block = false;  // experts in addition to each MLP

  std::size_t embedding_size = 0;  // size of token vectors before their projection; 0: hidden_size

  bool is_causal = true;  // false: tokens of a decoder also attend to later tokens

  // Encoders.
  bool use_bidirectional_attention = false;
  TokenId pad_token_id = 0;
  std::size_t num_hidden_groups = 0;               // groups of layers that share weights; 0: none
  std::size_t global_attn_every_n_layers = 0;      // layers 0, n, 2n, ... have no window
  std::size_t relative_attention_num_buckets = 0;  // 0: no relative position bias
  std::size_t relative_attention_max_distance = 128;
  std::vector<std::size_t> attention_window{};    // [layers]; window sizes, half on each side of a token
  std::vector<std::size_t> attention_dilation{};  // [layers] or empty (no dilation); window dilations
  bool block_sparse = false;                      // sparse attention, in blocks of block_size tokens
  std::size_t block_size = 64;
  std::size_t num_random_blocks = 3;
  std::string classifier_pooling = "cls";
  std::string classifier_activation = "gelu";

  TokenId mask_token_id = -1;  // for diffusion language models

  // Reformer.
  std::vector<std::string> attn_layers{};  // [layers]; "local" or "lsh"
  std::size_t local_attn_chunk_length = 64;
  std::size_t local_num_chunks_before = 1;
  std::size_t lsh_attn_chunk_length = 64;
  std::size_t lsh_num_chunks_before = 1;
  std::size_t lsh_num_chunks_after = 0;
  std::size_t num_hashes = 1;
  std::vector<std::size_t> num_buckets{};  // factors of the bucket count; empty: set by sequence length
  std::size_t hash_seed = 0;
  std::vector<std::size_t> axial_pos_shape{};      // rows and columns; empty: one table for all positions
  std::vector<std::size_t> axial_pos_embds_dim{};  // sizes of row vectors and column vectors

  // Encoder-decoders: the fields above describe the decoder, and the encoder_ fields describe the encoder.
  std::size_t encoder_layers = 0;
  std::size_t encoder_attention_heads = 0;
  std::size_t encoder_intermediate_size = 0;
  bool gated_mlp = false;        // in both encoder and decoder
  bool scale_embedding = false;  // multiply token vectors by sqrt(hidden_size)

  bool operator==(const CheckpointConfig&) const = default;
};

}  // namespace tp
