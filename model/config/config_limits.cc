#include "model/config/config_limits.h"

#include "tp/internal/require.h"

#include <cstddef>
#include <string_view>

namespace tp {

void require_countable_parts(const std::string& where, const CheckpointConfig& config) {
  const auto require_max = [&](std::size_t max, std::string_view name, std::size_t found) {
    require<ConfigError>(found <= max, "{}: {} must be at most {}, found {}; check config.json", where, name,
                         max, found);
  };
  require_max(std::size_t{1} << 24, "hidden_size", config.hidden_size);
  require_max(std::size_t{1} << 24, "target_hidden_size", config.drafter.target_hidden_size);
  require_max(config.vocab_size, "draft_vocab_size", config.drafter.draft_vocab_size);
  require_max(kMaxParts, "num_hidden_layers", config.num_hidden_layers);
  require_max(kMaxParts, "encoder_layers", config.seq2seq.encoder_layers);
  require_max(kMaxParts, "num_nextn_predict_layers", config.num_nextn_predict_layers);
  require_max(kMaxParts, "num_experts", config.num_experts);
  require_max(kMaxParts, "num_attention_heads", config.num_attention_heads);
  require_max(kMaxParts, "num_key_value_heads", config.num_key_value_heads);
  require_max(kMaxParts, "encoder_attention_heads", config.seq2seq.encoder_attention_heads);
  require_max(kMaxParts, "head_dim", config.head_dim);
  require_max(kMaxParts, "qk_nope_head_dim", config.latent.qk_nope_head_dim);
  require_max(kMaxParts, "v_head_dim", config.latent.v_head_dim);
  require_max(kMaxParts, "linear_num_key_heads", config.delta_net.num_key_heads);
  require_max(kMaxParts, "linear_num_value_heads", config.delta_net.num_value_heads);
  require_max(kMaxParts, "linear_key_head_dim", config.delta_net.key_head_dim);
  require_max(kMaxParts, "linear_value_head_dim", config.delta_net.value_head_dim);
  require_max(kMaxParts, "linear_conv_kernel_dim", config.delta_net.conv_kernel_dim);
  require_max(16, "altup_num_inputs", config.altup.num_inputs);  // kernels::kMaxStreams
  require_max(16, "hc_mult", config.hyper_connection.mult);      // kernels::kMaxStreams
  require_max(16, "hc_count", config.low_rank_connection.count);
  require_max(kMaxParts, "hc_lowrank", config.low_rank_connection.rank);
  require_max(256, "conv_L_cache", config.short_convolution.l_cache);
  require_max(std::size_t{1} << 20, "num_hidden_layers * num_experts",
              config.num_hidden_layers * config.num_experts);
}

}  // namespace tp
