// LFM2's short convolutions: their tensors, and their fields in config.json.
#pragma once

#include "model/config/part_table.h"

#include <array>
#include <cstddef>
#include <string>

namespace tp {

struct CheckpointConfig;

struct ShortConvolutionNames {
  std::string in_proj;  // rows: the gate before the convolution, the gate after it, the value
  std::string conv;
  std::string out_proj;
};

inline constexpr std::array kShortConvolutionTensors = std::to_array<PartTensor<ShortConvolutionNames>>({
    {&ShortConvolutionNames::in_proj, "in_proj", "shortconv.in_proj"},
    {&ShortConvolutionNames::conv, "conv", "shortconv.conv", nullptr, false},
    {&ShortConvolutionNames::out_proj, "out_proj", "shortconv.out_proj"},
});

// Short convolutions are in layers of the type "conv".
struct ShortConvolutionConfig {
  std::size_t l_cache = 0;          // width in tokens, including the current token; 0: no such layers
  bool auto_adjust_ff_dim = false;  // whether intermediate_size was computed from block_ff_dim

  bool operator==(const ShortConvolutionConfig&) const = default;
};

inline constexpr std::array kShortConvolutionNumbers = std::to_array<PartNumber<ShortConvolutionConfig>>({
    {&ShortConvolutionConfig::l_cache, {"conv_L_cache"}, "shortconv.l_cache"},
});

// Reads the convolutions' width, the types of layers and the width of MLPs. Throws ConfigError; `where` names
// the file.
void read_short_convolutions(const JsonNode& fields, const std::string& where, CheckpointConfig& config);

}  // namespace tp
