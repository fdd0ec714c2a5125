// The contents of a checkpoint's config.json. Fields have the same names as in the file.
#pragma once

#include "model/config/compressed_attention_part.h"
#include "model/config/delta_net_part.h"
#include "model/config/drafters/drafter_config.h"
#include "model/config/encoder_config.h"
#include "model/config/experts_part.h"
#include "model/config/latent_attention_part.h"
#include "model/config/layer_input_part.h"
#include "model/config/mamba1_part.h"
#include "model/config/mamba_part.h"
#include "model/config/reformer_config.h"
#include "model/config/residual_part.h"
#include "model/config/seq2seq_config.h"
#include "model/config/short_convolution_part.h"
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
  double local_partial_rotary_factor =
      0.0;                            // partial_rotary_factor in layers with a sliding window; 0: the same
  bool has_rope_theta = false;        // whether the file gives a rope_theta
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
  std::vector<std::size_t> no_rope_layers{};          // [layers] or empty; 1: RoPE, 0: no RoPE
  std::vector<double> layer_partial_rotary_factor{};  // [layers] or empty: partial_rotary_factor
  std::vector<double> layer_rope_theta{};             // [layers] or empty: rope_theta
  std::size_t no_rope_layer_interval = 0;             // without no_rope_layers: every n-th layer has no RoPE
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

  std::size_t num_nextn_predict_layers = 0;  // multi-token prediction layers, stored after the other layers
  ExpertsConfig experts;

  bool lm_head_bias = false;
  std::size_t attention_chunk_size = 0;  // 0: none
  bool attn_temperature_tuning = false;
  double attn_scale = 0.1;
  double floor_scale = 8192.0;
  double llama_4_scaling_beta = 0.0;  // Mistral: how fast queries grow with their position; 0: no growth

  LatentAttentionConfig latent;
  IndexerConfig indexer;
  BlockIndexerConfig block_indexer;
  PooledIndexerConfig pooled_indexer;
  CompressedAttentionConfig compressed;
  DeltaNetConfig delta_net;
  ShortConvolutionConfig short_convolution;
  MambaConfig mamba;
  Mamba1Config mamba1;
  Rwkv7Config rwkv7;
  double attention_in_multiplier = 1.0;  // factors of attention's input and output
  double attention_out_multiplier = 1.0;
  double key_multiplier = 1.0;
  std::vector<double> mlp_multipliers{};  // factors of the gate and of the output; empty: 1

  std::vector<std::size_t> num_attention_heads_per_layer{};  // [layers] or empty: num_attention_heads
  std::string gating{};        // gates of attention's output: "per-head", "per-element", or empty: none
  std::size_t v_head_dim = 0;  // size of values without latents; 0: head_dim
  double attention_value_scale = 1.0;
  std::size_t swa_num_key_value_heads = 0;    // in layers with a window; 0: num_key_value_heads
  bool add_swa_attention_sink_bias = false;   // in layers with a window
  bool add_full_attention_sink_bias = false;  // in the other layers

  // Layers without a window, if they differ from layers with a window.
  std::size_t global_head_dim = 0;             // 0: head_dim
  std::size_t num_global_key_value_heads = 0;  // 0: num_key_value_heads
  bool attention_k_eq_v = false;               // use keys as values
  // The last layers use the keys and values of the last earlier layer of the same type.
  std::size_t num_kv_shared_layers = 0;
  bool use_double_wide_mlp = false;  // twice the intermediate_size in these layers
  LayerInputConfig layer_input;
  HashTableConfig hash_table;
  LaurelConfig laurel;
  AltUpConfig altup;
  HyperConnectionConfig hyper_connection;
  LowRankConnectionConfig low_rank_connection;
  bool attn_res_norms = true;  // false: the projections contain the gains of attention residuals' norms
  std::size_t attn_res_block_size = 0;  // layers between those that begin a sum; 0: no attention residuals
  std::vector<std::size_t> intermediate_sizes{};  // [layers] or empty: intermediate_size
  // [layers] or empty: the part of an MLP's gates that become 0, if gates are distributed normally
  std::vector<double> activation_sparsity_pattern{};
  bool enable_moe_block = false;  // experts in addition to each MLP

  std::size_t embedding_size = 0;  // size of token vectors before their projection; 0: hidden_size

  bool is_causal = true;  // false: tokens of a decoder also attend to later tokens

  bool use_bidirectional_attention = false;
  TokenId pad_token_id = 0;
  EncoderConfig encoder;
  TokenId mask_token_id = -1;     // for diffusion language models
  std::size_t canvas_length = 0;  // tokens of a canvas; 0: the model has masks instead of canvases

  ReformerConfig reformer;
  Seq2SeqConfig seq2seq;
  DrafterConfig drafter;

  bool operator==(const CheckpointConfig&) const = default;
};

}  // namespace tp
