#include "model/config/mamba1_part.h"

#include "model/config/checkpoint_config.h"
#include "model/config/spec.h"
#include "tp/internal/require.h"

#include <optional>

namespace tp {
namespace {

constexpr std::size_t kMaxChannels = std::size_t{1} << 24;
constexpr std::size_t kMaxElements = 65536;
constexpr std::size_t kMaxInState = std::size_t{1} << 28;

// "auto" is a sixteenth of hidden_size.
std::size_t dt_rank_of(const JsonNode& fields, const CheckpointConfig& config) {
  const std::optional<JsonNode> rank = fields.find(fields.name_of({"mamba_dt_rank", "time_step_rank"}));
  if (!rank || (rank->is_string() && rank->string() == "auto")) return (config.hidden_size + 15) / 16;
  return rank->size();
}

void require_possible(const std::string& where, const Mamba1Config& mamba) {
  require<ConfigError>(
      mamba.d_inner <= kMaxChannels && mamba.d_state <= kMaxElements && mamba.dt_rank <= kMaxElements &&
          mamba.d_conv <= 256,
      "{}: a mixer must have at most {} channels, a state_size and a time_step_rank of at most {}, and a "
      "conv_kernel of at most 256, found {}, {}, {} and {}; check config.json",
      where, kMaxChannels, kMaxElements, mamba.d_inner, mamba.d_state, mamba.dt_rank, mamba.d_conv);
  require<ConfigError>(mamba.d_inner * mamba.d_state <= kMaxInState,
                       "{}: a mixer's channels times its state_size must be at most {}, found {} x {}; check "
                       "config.json",
                       where, kMaxInState, mamba.d_inner, mamba.d_state);
  require<ConfigError>(mamba.attn_layer_offset < mamba.attn_layer_period || mamba.attn_layer_period == 0,
                       "{}: attn_layer_offset must be less than attn_layer_period, found {} and {}; check "
                       "config.json",
                       where, mamba.attn_layer_offset, mamba.attn_layer_period);
}

}  // namespace

void read_mamba1(const JsonNode& fields, const std::string& where, CheckpointConfig& config) {
  Mamba1Config& mamba = config.mamba1;
  read_numbers(kMamba1Numbers, fields, mamba);
  fields.update_count({"attn_layer_offset"}, mamba.attn_layer_offset);
  mamba.dt_rank = dt_rank_of(fields, config);
  mamba.d_inner = mamba.expand * config.hidden_size;
  require_possible(where, mamba);
  if (mamba.attn_layer_period == 0) {
    config.num_attention_heads = config.num_key_value_heads = mamba1_of(config).units();
    return;
  }
  for (std::size_t layer = 0; layer < config.num_hidden_layers; ++layer)
    config.layer_types.emplace_back(
        layer % mamba.attn_layer_period == mamba.attn_layer_offset ? "full_attention" : "mamba");
}

Mamba1Spec mamba1_of(const CheckpointConfig& config) {
  const Mamba1Config& mamba = config.mamba1;
  return {.channels = mamba.d_inner,
          .state_size = mamba.d_state,
          .conv_kernel = mamba.d_conv,
          .dt_rank = mamba.dt_rank,
          .norm = std::nullopt};
}

nlohmann::json mamba1_in_gguf(const ModelMetadata& model) {
  nlohmann::json config = numbers_in_gguf(kMamba1Numbers, model);
  const std::uint64_t hidden_size = model.whole("embedding_length");
  const std::uint64_t inner_size = model.whole("ssm.inner_size");
  require<CheckpointError>(hidden_size != 0 && inner_size % hidden_size == 0,
                           "{}: expected an ssm.inner_size that is a multiple of embedding_length, found {} "
                           "and {}; convert the model again",
                           model.files().name(), inner_size, hidden_size);
  config["mamba_expand"] = inner_size / hidden_size;
  config["mamba_dt_rank"] = model.whole("ssm.time_step_rank");
  return config;
}

}  // namespace tp
