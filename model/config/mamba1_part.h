// Mamba-1 mixers: their tensors, their numbers, and what config.json and GGUF files say about them.
#pragma once

#include "model/config/part_table.h"

#include <array>
#include <cstddef>
#include <string>

namespace tp {

struct CheckpointConfig;
struct Mamba1Spec;

struct Mamba1Names {
  std::string in_proj;  // rows: x, z
  std::string conv;     // channels of x
  std::string x_proj;   // rows: the vector of dt, B, C
  std::string dt_norm{};
  std::string b_norm{};
  std::string c_norm{};
  std::string dt_proj;
  std::string decay;   // a tensor, not a layer
  std::string direct;  // a tensor, not a layer: factors of x in the output
  std::string out_proj;
};

inline constexpr std::array kMamba1Tensors = std::to_array<PartTensor<Mamba1Names>>({
    {&Mamba1Names::in_proj, "in_proj", "ssm_in"},
    {&Mamba1Names::conv, "conv1d", "ssm_conv1d", nullptr, false},
    {&Mamba1Names::x_proj, "x_proj", "ssm_x"},
    {&Mamba1Names::dt_norm, "", "ssm_dt_norm"},
    {&Mamba1Names::b_norm, "", "ssm_b_norm"},
    {&Mamba1Names::c_norm, "", "ssm_c_norm"},
    {&Mamba1Names::dt_proj, "dt_proj", "ssm_dt"},
    {&Mamba1Names::decay, "A_log", "ssm_a", gguf_exp, false},
    {&Mamba1Names::direct, "D", "ssm_d"},
    {&Mamba1Names::out_proj, "out_proj", "ssm_out"},
});

// Mixers are in layers of the type "mamba", or in all layers.
struct Mamba1Config {
  std::size_t expand = 2;  // channels as a multiple of hidden_size
  std::size_t d_state = 16;
  std::size_t d_conv = 0;   // width in tokens, including the current token; 0: no mixers
  std::size_t dt_rank = 0;  // at least 1 after reading
  std::size_t d_inner = 0;  // channels
  // Layer i has attention if i % attn_layer_period is attn_layer_offset. 0: no layer has attention.
  std::size_t attn_layer_period = 0;
  std::size_t attn_layer_offset = 0;

  bool operator==(const Mamba1Config&) const = default;
};

// GGUF files have the products of `expand`. dt_rank may be a word.
inline constexpr std::array kMamba1Numbers = std::to_array<PartNumber<Mamba1Config>>({
    {&Mamba1Config::expand, {"mamba_expand", "expand"}},
    {&Mamba1Config::d_state, {"mamba_d_state", "state_size"}, "ssm.state_size"},
    {&Mamba1Config::d_conv, {"mamba_d_conv", "conv_kernel"}, "ssm.conv_kernel"},
    {&Mamba1Config::attn_layer_period, {"attn_layer_period"}},
});

// Reads a model's mixers, and the types of its layers. Without attention, num_attention_heads becomes the
// number of units of channels, which ranks divide instead of heads. hidden_size and num_hidden_layers must be
// read already. Throws ConfigError; `where` names the file.
void read_mamba1(const JsonNode& fields, const std::string& where, CheckpointConfig& config);

// The spec of a mixer without norms.
Mamba1Spec mamba1_of(const CheckpointConfig& config);

// Sizes of mixers in a GGUF file, as fields of config.json. Throws CheckpointError or ConfigError.
nlohmann::json mamba1_in_gguf(const ModelMetadata& model);

// Writes the metadata of a GGUF file by `values`.
template <class Values>
void write_mamba1(const Mamba1Config& config, Values& values) {
  write_numbers(kMamba1Numbers, config, values);
  values.whole("ssm.inner_size", config.d_inner);
  values.whole("ssm.time_step_rank", config.dt_rank);
}

}  // namespace tp
