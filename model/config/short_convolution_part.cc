#include "model/config/short_convolution_part.h"

#include "model/config/checkpoint_config.h"
#include "tp/internal/require.h"

#include <vector>

namespace tp {
namespace {

// full_attn_idxs lists the layers with attention; newer files have layer_types instead.
std::vector<std::string> types_by_list(const JsonNode& fields, const std::string& where,
                                       const CheckpointConfig& config) {
  std::vector<std::string> types(config.num_hidden_layers, "conv");
  for (const std::size_t layer : fields.list_or_empty("full_attn_idxs", &JsonNode::count)) {
    require<ConfigError>(layer < types.size(),
                         "{}: full_attn_idxs must be layers below num_hidden_layers, {}, found {}; check "
                         "config.json",
                         where, types.size(), layer);
    types[layer] = "full_attention";
  }
  return types;
}

// Two thirds of block_ff_dim times a multiplier, rounded up to a multiple of block_multiple_of.
std::size_t adjusted_width(const JsonNode& fields, const std::string& where, std::size_t block_ff_dim) {
  const std::size_t width = 2 * block_ff_dim / 3;
  if (fields.is_null("block_ffn_dim_multiplier")) return width;
  const double multiplier = fields.number_or("block_ffn_dim_multiplier", 1.0);
  const std::size_t multiple = fields.size_or("block_multiple_of", 256);
  const double scaled = multiplier * static_cast<double>(width);
  require<ConfigError>(scaled >= 1.0 && scaled < 1e12 && multiple < std::size_t{1} << 40,
                       "{}: two thirds of block_ff_dim, {}, times block_ffn_dim_multiplier must be at least "
                       "1, found a multiplier of {} and a block_multiple_of {}; check config.json",
                       where, width, multiplier, multiple);
  return (static_cast<std::size_t>(scaled) + multiple - 1) / multiple * multiple;
}

}  // namespace

void read_short_convolutions(const JsonNode& fields, const std::string& where, CheckpointConfig& config) {
  read_numbers(kShortConvolutionNumbers, fields, config.short_convolution);
  if (fields.has("full_attn_idxs")) config.layer_types = types_by_list(fields, where, config);
  fields.update({"block_auto_adjust_ff_dim"}, config.short_convolution.auto_adjust_ff_dim);
  if (config.short_convolution.auto_adjust_ff_dim)
    config.intermediate_size = adjusted_width(fields, where, config.intermediate_size);
}

}  // namespace tp
