// The gated delta net, Kimi delta attention and RWKV-7: their tensors, and their fields in config.json.
#pragma once

#include "model/config/part_table.h"

#include <array>
#include <cstddef>
#include <string>

namespace tp {

struct CheckpointConfig;
struct GatedDeltaNetSpec;
struct Rwkv7Spec;

struct GatedDeltaNetNames {
  // Queries, keys, values and gates, grouped by key head. Alternatively two tensors: in_proj_qkv with all
  // queries, then all keys, then all values; and in_proj_z with the gates.
  std::string in_proj_qkvz{};
  std::string in_proj_qkv{};
  std::string in_proj_z{};
  // Strengths and decays, grouped by key head. Alternatively two tensors.
  std::string in_proj_ba{};
  std::string in_proj_b{};
  std::string in_proj_a{};
  std::string conv{};  // channels of queries, keys and values, unless their convolutions have names
  // Separate layers for queries, keys and values.
  std::string q_proj{};
  std::string k_proj{};
  std::string v_proj{};
  std::string q_conv{};
  std::string k_conv{};
  std::string v_conv{};
  // Pairs of layers that project decays and output gates (see GatedDeltaNetSpec::gate_rank).
  std::string decay_down{};
  std::string decay_up{};
  std::string gate_down{};
  std::string gate_up{};
  std::string decay;       // a tensor, not a layer
  std::string decay_bias;  // a tensor, not a layer
  std::string norm;
  std::string out_proj;
};

// Arrangements in GGUF files. Value heads may be tiled (GgufTensorNames::tiled_value_heads): rows of values,
// rows of values after those of queries and keys, one row for each value head, and columns of values.
GgufPlace delta_value_rows(const GgufContext& context);
GgufPlace delta_rows_after_keys(const GgufContext& context);
GgufPlace delta_head_rows(const GgufContext& context);
// A convolution of queries, keys and values, of which files of Kimi delta attention have three.
GgufPlace delta_convolution(const GgufContext& context);
GgufPlace delta_value_columns(const GgufContext& context);
// Logarithms of decays: one for each value head. Files of Kimi delta attention store them as a column.
GgufPlace delta_decays(const GgufContext& context);

// In GGUF files, q_proj, k_proj and v_proj are those of a block's attention.
inline constexpr std::array kDeltaNetTensors = std::to_array<PartTensor<GatedDeltaNetNames>>({
    {&GatedDeltaNetNames::in_proj_qkvz, "in_proj_qkvz", "ssm_in"},
    {&GatedDeltaNetNames::in_proj_qkv, "in_proj_qkv", "attn_qkv", delta_rows_after_keys},
    {&GatedDeltaNetNames::in_proj_z, "in_proj_z", "attn_gate", delta_value_rows},
    {&GatedDeltaNetNames::in_proj_ba, "in_proj_ba", "ssm_ba"},
    {&GatedDeltaNetNames::in_proj_b, "in_proj_b", "ssm_beta", delta_head_rows},
    {&GatedDeltaNetNames::in_proj_a, "in_proj_a", "ssm_alpha", delta_head_rows},
    {&GatedDeltaNetNames::conv, "conv1d", "ssm_conv1d", delta_convolution, false},
    {&GatedDeltaNetNames::q_proj},
    {&GatedDeltaNetNames::k_proj},
    {&GatedDeltaNetNames::v_proj},
    {&GatedDeltaNetNames::q_conv, "", "ssm_conv1d_q", gguf_extent_1, false},
    {&GatedDeltaNetNames::k_conv, "", "ssm_conv1d_k", gguf_extent_1, false},
    {&GatedDeltaNetNames::v_conv, "", "ssm_conv1d_v", gguf_extent_1, false},
    {&GatedDeltaNetNames::decay_down, "", "ssm_f_a"},
    {&GatedDeltaNetNames::decay_up, "", "ssm_f_b"},
    {&GatedDeltaNetNames::gate_down, "", "ssm_g_a"},
    {&GatedDeltaNetNames::gate_up, "", "ssm_g_b"},
    {&GatedDeltaNetNames::decay, "A_log", "ssm_a", delta_decays},
    {&GatedDeltaNetNames::decay_bias, "dt_bias", "ssm_dt.bias", delta_head_rows},
    {&GatedDeltaNetNames::norm, "norm", "ssm_norm", nullptr, false},
    {&GatedDeltaNetNames::out_proj, "out_proj", "ssm_out", delta_value_columns},
});

// The gated delta net is in layers of the type "linear_attention".
struct DeltaNetConfig {
  std::size_t full_attention_interval = 0;  // without layer_types: every n-th layer has attention
  std::size_t num_key_heads = 0;
  std::size_t num_value_heads = 0;
  std::size_t key_head_dim = 0;
  std::size_t value_head_dim = 0;
  std::size_t conv_kernel_dim = 0;
  bool allow_neg_eigval = false;  // strengths up to 2
  std::string output_gate{};      // activation of output gates; empty: silu
  double decay_floor = 0.0;       // Ling: the logarithm of the strongest decay; 0: no limit
  std::size_t first_layer = 1;    // number of the first layer in Kimi's lists of layers

  bool operator==(const DeltaNetConfig&) const = default;
};

// value_head_dim is a quotient of other numbers of a GGUF file.
inline constexpr std::array kDeltaNetNumbers = std::to_array<PartNumber<DeltaNetConfig>>({
    {&DeltaNetConfig::conv_kernel_dim, {"linear_conv_kernel_dim"}, "ssm.conv_kernel"},
    {&DeltaNetConfig::key_head_dim, {"linear_key_head_dim"}, "ssm.state_size"},
    {&DeltaNetConfig::num_key_heads, {"linear_num_key_heads"}, "ssm.group_count"},
    {&DeltaNetConfig::num_value_heads, {"linear_num_value_heads"}, "ssm.time_step_rank"},
    {&DeltaNetConfig::value_head_dim, {"linear_value_head_dim"}},
});

// Reads the fields of the gated delta net, or Kimi-Linear's object with its layers. num_hidden_layers must be
// read already. Throws ConfigError; `where` names the file.
void read_delta_net(const JsonNode& fields, const std::string& where, CheckpointConfig& config);

// Throws ConfigError for impossible sizes.
GatedDeltaNetSpec delta_net_of(const CheckpointConfig& config);

// Sizes of the gated delta net in a GGUF file, as fields of config.json. Throws CheckpointError or
// ConfigError.
nlohmann::json delta_net_in_gguf(const ModelMetadata& model);

// Writes the metadata of a GGUF file by `values`.
template <class Values>
void write_delta_net(const DeltaNetConfig& config, Values& values) {
  write_numbers(kDeltaNetNumbers, config, values);
  values.whole("ssm.inner_size", config.num_value_heads * config.value_head_dim);
  values.whole("full_attention_interval", config.full_attention_interval);
}

struct Rwkv7Names {
  // Tensors, not layers: shares of the token before in the inputs of projections, as vectors or as a matrix.
  std::string mix_r{};
  std::string mix_w{};
  std::string mix_k{};
  std::string mix_v{};
  std::string mix_a{};
  std::string mix_g{};
  std::string mix_all{};
  std::string r_proj{};
  std::string k_proj{};
  std::string v_proj{};
  // Pairs of layers, and the biases of the second ones, which GGUF files store under names of their own.
  std::string decay_down{};
  std::string decay_up{};
  std::string decay_bias{};
  std::string strength_down{};
  std::string strength_up{};
  std::string strength_bias{};
  std::string value_down{};
  std::string value_up{};
  std::string value_bias{};
  std::string gate_down{};
  std::string gate_up{};
  // Tensors, not layers: factors of keys, and of products of receptances and keys.
  std::string removal_gain{};
  std::string key_gain{};
  std::string bonus{};
  std::string norm{};
  std::string o_proj{};
  std::string channel_mix{};  // a tensor, not a layer: the share of the token before in the MLP's input
};

// Arrangements in GGUF files: a row of the matrix of all mixes, this matrix, and a vector of the rows of all
// heads.
template <std::size_t kRow>
GgufPlace rwkv7_mix(const GgufContext& /*context*/) {
  return {.expert = kRow, .extents_of_1 = 2};
}
inline GgufPlace rwkv7_mixes(const GgufContext& /*context*/) { return {.extents_of_1 = 2}; }
GgufPlace rwkv7_heads(const GgufContext& context);

// llama.cpp does not quantize the pairs of layers.
inline constexpr std::array kRwkv7Tensors = std::to_array<PartTensor<Rwkv7Names>>({
    {&Rwkv7Names::mix_r, "x_r", "time_mix_lerp_fused.weight", rwkv7_mix<0>, false},
    {&Rwkv7Names::mix_w, "x_w", "time_mix_lerp_fused.weight", rwkv7_mix<1>, false},
    {&Rwkv7Names::mix_k, "x_k", "time_mix_lerp_fused.weight", rwkv7_mix<2>, false},
    {&Rwkv7Names::mix_v, "x_v", "time_mix_lerp_fused.weight", rwkv7_mix<3>, false},
    {&Rwkv7Names::mix_a, "x_a", "time_mix_lerp_fused.weight", rwkv7_mix<4>, false},
    {&Rwkv7Names::mix_g, "x_g", "time_mix_lerp_fused.weight", rwkv7_mix<5>, false},
    {&Rwkv7Names::mix_all, "x_x", "time_mix_lerp_fused.weight", rwkv7_mixes, false},
    {&Rwkv7Names::r_proj, "r_proj", "time_mix_receptance"},
    {&Rwkv7Names::k_proj, "k_proj", "time_mix_key"},
    {&Rwkv7Names::v_proj, "v_proj", "time_mix_value"},
    {&Rwkv7Names::decay_down, "w_lora.lora.0", "time_mix_w1", nullptr, false},
    {&Rwkv7Names::decay_up, "w_lora.lora.2", "time_mix_w2", nullptr, false},
    {&Rwkv7Names::decay_bias, "w_lora.lora.2.bias", "time_mix_w0.weight"},
    {&Rwkv7Names::strength_down, "a_lora.lora.0", "time_mix_a1", nullptr, false},
    {&Rwkv7Names::strength_up, "a_lora.lora.2", "time_mix_a2", nullptr, false},
    {&Rwkv7Names::strength_bias, "a_lora.lora.2.bias", "time_mix_a0.weight"},
    {&Rwkv7Names::value_down, "v_lora.lora.0", "time_mix_v1", nullptr, false},
    {&Rwkv7Names::value_up, "v_lora.lora.2", "time_mix_v2", nullptr, false},
    {&Rwkv7Names::value_bias, "v_lora.lora.2.bias", "time_mix_v0.weight"},
    {&Rwkv7Names::gate_down, "g_lora.lora.0", "time_mix_g1", nullptr, false},
    {&Rwkv7Names::gate_up, "g_lora.lora.2", "time_mix_g2", nullptr, false},
    {&Rwkv7Names::removal_gain, "k_k", "time_mix_k_k.weight"},
    {&Rwkv7Names::key_gain, "k_a", "time_mix_k_a.weight"},
    {&Rwkv7Names::bonus, "r_k", "time_mix_r_k.weight", rwkv7_heads, false},
    {&Rwkv7Names::norm, "g_norm", "time_mix_ln"},
    {&Rwkv7Names::o_proj, "o_proj", "time_mix_output"},
    {&Rwkv7Names::channel_mix, "", "channel_mix_lerp_k.weight"},
});

// The fields of RWKV-7, which is in all layers.
struct Rwkv7Config {
  std::size_t head_dim = 0;  // 0: another family
  std::size_t decay_low_rank_dim = 0;
  std::size_t a_low_rank_dim = 0;
  std::size_t v_low_rank_dim = 0;
  std::size_t gate_low_rank_dim = 0;

  bool operator==(const Rwkv7Config&) const = default;
};

inline constexpr std::array kRwkv7Numbers = std::to_array<PartNumber<Rwkv7Config>>({
    {&Rwkv7Config::head_dim, {"head_dim"}, "wkv.head_size"},
    {&Rwkv7Config::decay_low_rank_dim, {"decay_low_rank_dim"}, "attention.decay_lora_rank"},
    {&Rwkv7Config::a_low_rank_dim, {"a_low_rank_dim"}, "attention.iclr_lora_rank"},
    {&Rwkv7Config::v_low_rank_dim, {"v_low_rank_dim"}, "attention.value_residual_mix_lora_rank"},
    {&Rwkv7Config::gate_low_rank_dim, {"gate_low_rank_dim"}, "attention.gate_lora_rank"},
});

// Reads the fields, and sets the numbers of attention heads. hidden_size and num_hidden_layers must be read
// already. Throws ConfigError; `where` names the file.
void read_rwkv7(const JsonNode& fields, const std::string& where, CheckpointConfig& config);

// The spec of a layer.
Rwkv7Spec rwkv7_of(const CheckpointConfig& config, std::size_t layer);

}  // namespace tp
