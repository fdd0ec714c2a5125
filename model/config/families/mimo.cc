// MiMo-V2: windows with attention sinks in most layers, which have more KV heads and another theta; values
// that are smaller than keys; DeepSeek-V3's choice of experts without a shared one.
#include "model/config/families/common.h"

namespace tp::families {
namespace {

ModelSpec mimo_spec(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  set_windows(config, spec, [](std::size_t) { return false; });  // the file's pattern decides
  const double local_part = config.local_partial_rotary_factor != 0.0 ? config.local_partial_rotary_factor
                                                                      : config.partial_rotary_factor;
  for (BlockSpec& block : spec.blocks) {
    AttentionSpec& attention = attention_of(block);
    const bool is_local = attention.pattern.window.has_value();
    attention.v_head_dim = config.v_head_dim;
    attention.output_scale = static_cast<float>(config.attention_value_scale);
    attention.sinks = is_local ? config.add_swa_attention_sink_bias : config.add_full_attention_sink_bias;
    if (!is_local) continue;
    if (config.swa_num_key_value_heads != 0) attention.num_key_value_heads = config.swa_num_key_value_heads;
    if (config.rope_local_base_freq != 0.0)
      attention.rope = RopeSpec{.theta = config.rope_local_base_freq,
                                .scaling = {},
                                .rotary_dim = rotated_elements(config, local_part)};
  }
  set_sigmoid_experts(config, spec);
  return spec;
}

BlockNames mimo_block(const std::string& prefix) {
  BlockNames names = llama_block(prefix);
  names.sinks = prefix + "self_attn.attention_sink_bias";
  return names;
}

}  // namespace

Family mimo_v2() {
  Family family = llama_like("MiMoV2FlashForCausalLM", mimo_spec, mimo_block);
  family.aliases = {"MiMoV2ForCausalLM"};
  family.fixed_fields = {
      {"scoring_func", "\"sigmoid\""}, {"topk_method", "\"noaux_tc\""}, {"attention_bias", "false"}};
  family.names.ignored_prefixes = {"model.mtp."};
  family.defaults.rms_norm_eps = 1e-5;
  family.defaults.v_head_dim = 128;
  family.defaults.experts.norm_topk_prob = true;
  return family;
}

}  // namespace tp::families
