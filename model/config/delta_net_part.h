// The gated delta net and Kimi delta attention: their tensors, and their fields in config.json.
#pragma once

#include "model/config/part_table.h"

#include <array>
#include <cstddef>
#include <string>

namespace tp {

struct CheckpointConfig;
struct GatedDeltaNetSpec;

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
  std::string conv{};  // channels of queries, keys and values
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
    {&GatedDeltaNetNames::conv, "conv1d", "ssm_conv1d", delta_rows_after_keys, false},
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
  double decay_floor = 0.0;       // Ling: the logarithm of the strongest decay; 0: no limit

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

}  // namespace tp
