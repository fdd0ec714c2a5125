// Mamba-2 mixers: their tensors, their numbers, and what config.json and GGUF files say about them.
#pragma once

#include "model/config/part_table.h"

#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace tp {

struct CheckpointConfig;
struct MambaSpec;

struct MambaNames {
  std::string in_proj;  // rows: z, x, B, C, dt
  std::string conv;     // channels: x, B, C
  std::string dt_bias;  // a tensor, not a layer
  std::string decay;    // a tensor, not a layer
  std::string direct;   // a tensor, not a layer: factors of x in the output
  std::string norm;
  std::string out_proj;
};

// The norm, as GGUF files store it: one row for each group of heads.
GgufPlace row_per_mamba_group(const GgufContext& context);

inline constexpr std::array kMambaTensors = std::to_array<PartTensor<MambaNames>>({
    {&MambaNames::in_proj, "in_proj", "ssm_in"},
    {&MambaNames::conv, "conv1d", "ssm_conv1d", nullptr, false},
    {&MambaNames::dt_bias, "dt_bias", "ssm_dt.bias"},
    {&MambaNames::decay, "A_log", "ssm_a", gguf_column_of_exp},
    {&MambaNames::direct, "D", "ssm_d", gguf_column},
    {&MambaNames::norm, "norm", "ssm_norm", row_per_mamba_group, false},
    {&MambaNames::out_proj, "out_proj", "ssm_out"},
});

// Mixers are in layers of the type "mamba", or in all layers.
struct MambaConfig {
  std::size_t n_heads = 0;
  std::size_t d_head = 0;
  std::size_t n_groups = 1;
  std::size_t d_state = 128;
  std::size_t d_conv = 0;             // width in tokens, including the current token; 0: no mixers
  bool rms_norm = true;               // a norm of the gated output
  std::vector<double> multipliers{};  // factors of z, x, B, C and dt; empty: 1
  double in_multiplier = 1.0;         // factors of a mixer's input and output
  double out_multiplier = 1.0;

  std::size_t inner() const { return n_heads * d_head; }

  bool operator==(const MambaConfig&) const = default;
};

// d_head is a quotient of other numbers.
inline constexpr std::array kMambaNumbers = std::to_array<PartNumber<MambaConfig>>({
    {&MambaConfig::d_conv, {"mamba_d_conv", "conv_kernel"}, "ssm.conv_kernel"},
    {&MambaConfig::d_state, {"mamba_d_state", "ssm_state_size", "state_size"}, "ssm.state_size"},
    {&MambaConfig::n_groups, {"mamba_n_groups", "n_groups"}, "ssm.group_count"},
    {&MambaConfig::n_heads, {"mamba_n_heads", "mamba_num_heads", "num_heads"}, "ssm.time_step_rank"},
});

// Reads a model's mixers, and its layer_types and multipliers under the names that such models use.
// hidden_size and num_hidden_layers must be read already. Throws ConfigError; `where` names the file.
void read_mamba(const JsonNode& fields, const std::string& where, CheckpointConfig& config);

// The spec of a mixer whose norm covers all heads or, with `norms_groups`, each group.
MambaSpec mamba_of(const CheckpointConfig& config, double norm_eps, bool norms_groups);

// Sizes of mixers in a GGUF file, as fields of config.json. Throws CheckpointError or ConfigError.
nlohmann::json mamba_in_gguf(const ModelMetadata& model);

// Writes the metadata of a GGUF file by `values`.
template <class Values>
void write_mamba(const MambaConfig& config, Values& values) {
  write_numbers(kMambaNumbers, config, values);
  values.whole("ssm.inner_size", config.inner());
}

}  // namespace tp
