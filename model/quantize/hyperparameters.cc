#include "model/quantize/hyperparameters.h"

#include "model/config/architectures.h"
#include "model/quantize/architecture_values.h"
#include "model/quantize/describing_vectors.h"
#include "model/quantize/header_check.h"
#include "model/quantize/stream_hyperparameters.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace tp {
namespace {

using Kind = RopeScaling::Kind;

// Llama 3's scaling and proportional RoPE are stored only in a tensor.
void write_rope(const CheckpointConfig& config, const RopeSpec& rope, bool is_latent,
                ArchitectureValues& values) {
  const RopeScaling& scaling = rope.scaling;
  const std::size_t multiple = family_of(config.architecture).gguf.doubles_rotary_dim ? 2 : 1;
  if (!config.mrope_section.empty()) values.sections("rope.dimension_sections", config.mrope_section);
  values.number("rope.freq_base", rope.theta);
  values.whole("rope.dimension_count", multiple * rope.rotary_dim);
  const bool is_in_tensor = scaling.kind == Kind::llama3 || scaling.kind == Kind::proportional;
  if (scaling.kind == Kind::none || is_in_tensor) return;
  values.whole_if("rope.scaling.original_context_length", scaling.original_max_position_embeddings);
  if (scaling.kind == Kind::longrope) {
    values.number("rope.scaling.attn_factor", scaling.attention_factor);
    return;
  }
  values.text("rope.scaling.type", scaling.kind == Kind::yarn ? "yarn" : "linear");
  values.number("rope.scaling.factor", scaling.factor);
  if (scaling.kind == Kind::linear) return;
  values.number("rope.scaling.yarn_beta_fast", scaling.beta_fast);
  values.number("rope.scaling.yarn_beta_slow", scaling.beta_slow);
  // mscale_all_dim. Files of latent attention contain a tenth of it.
  if (scaling.attention_factor == 1.0 && scaling.score_factor != 1.0)
    values.number("rope.scaling.yarn_log_multiplier",
                  (is_latent ? 1 : 10) * (scaling.score_factor - 1.0) / std::log(scaling.factor));
  // A factor that does not follow from `factor`.
  const double usual = 0.1 * std::log(std::max(scaling.factor, 1.0)) + 1.0;
  if (scaling.score_factor == 1.0 && std::abs(scaling.attention_factor - usual) > 1e-6 * usual)
    values.number("rope.scaling.yarn_attn_factor", scaling.attention_factor);
}

// Keys that end in _mla describe the actual heads. Files with kv_b as one tensor lack such keys.
void write_latent_attention(const LatentAttentionSpec& attention, bool whole_kv_b,
                            ArchitectureValues& values) {
  const std::size_t head_dim = attention.qk_nope_head_dim + attention.qk_rope_head_dim;
  if (whole_kv_b) {
    values.whole("attention.key_length", head_dim);
    values.whole("attention.value_length", attention.v_head_dim);
  } else {
    values.whole("attention.key_length", attention.kv_lora_rank + attention.qk_rope_head_dim);
    values.whole("attention.value_length", attention.kv_lora_rank);
    values.whole("attention.key_length_mla", head_dim);
    values.whole("attention.value_length_mla", attention.v_head_dim);
  }
  values.whole("attention.kv_lora_rank", attention.kv_lora_rank);
  values.whole_if("attention.q_lora_rank", attention.q_lora_rank.value_or(0));
  if (!attention.rope) values.whole("rope.dimension_count", attention.qk_rope_head_dim);
}

// Files list the layers that have an indexer only if not all layers have one.
void write_indexers(const CheckpointConfig& config, const ModelSpec& spec, const std::string& architecture,
                    GgufValues& all) {
  if (first_indexer(spec) == nullptr) return;
  ArchitectureValues values(architecture, all);
  write_numbers(kIndexerNumbers, config.indexer, values);
  if (config.indexer.pool > 1) {  // layers without an indexer are those without KV heads
    values.whole("attention.indexer.kpool", config.indexer.pool);
    return;
  }
  std::vector<bool> own;
  for (const BlockSpec& block : spec.blocks) own.push_back(!indexer_of(block)->is_shared);
  if (std::ranges::find(own, false) != own.end())
    all.booleans(architecture + ".attention.indexer.types", own);
}

// Indexers of grouped-query attention. Layers with an indexer of blocks have its tensors, so files need not
// list them.
void write_group_indexers(const CheckpointConfig& config, const ModelSpec& spec, ArchitectureValues& values) {
  if (std::ranges::any_of(spec.blocks, [](const auto& block) { return block_indexer_of(block) != nullptr; }))
    write_numbers(kBlockIndexerNumbers, config.block_indexer, values);
  std::vector<std::int32_t> pools;
  for (const BlockSpec& block : spec.blocks) {
    const PooledIndexerSpec* const indexer = pooled_indexer_of(block);
    pools.push_back(indexer == nullptr ? 0 : static_cast<std::int32_t>(indexer->pool));
  }
  if (std::ranges::max(pools) == 0) return;
  write_numbers(kPooledIndexerNumbers, config.pooled_indexer, values);
  values.wholes("attention.compress_ratios", pools);
}

const MixtureOfExpertsSpec* first_experts(const ModelSpec& spec) {
  for (const BlockSpec& block : spec.blocks) {
    if (const MixtureOfExpertsSpec* const experts = experts_in(block)) return experts;
  }
  return nullptr;
}

// Writes values for DeepSeek's choice of experts.
void write_correction(const CheckpointConfig& config, const RouterSpec& router, ArchitectureValues& values) {
  constexpr std::size_t kSoftmax = 1;
  constexpr std::size_t kSigmoid = 2;
  values.whole("expert_gating_func", router.scoring == RouterSpec::Scoring::sigmoid ? kSigmoid : kSoftmax);
  values.number("expert_weights_scale", config.experts.routed_scaling_factor);
  values.boolean("expert_weights_norm", router.normalize);
  values.whole_if("expert_shared_count", config.experts.n_shared_experts);
  if (router.num_groups > 1) {
    values.whole("expert_group_count", router.num_groups);
    values.whole("expert_group_used_count", router.groups_per_tok);
  }
  // Step's configs list the layers with experts.
  const std::vector<std::size_t>& listed = config.experts.moe_layers;
  values.whole_if("leading_dense_block_count", listed.empty() ? std::max(config.experts.first_k_dense_replace,
                                                                         config.experts.moe_layer_start_index)
                                                              : std::ranges::min(listed));
}

// Writes a number of each layer: one number if all are equal, else a list.
void write_of_layers(const char* key, const std::vector<std::int32_t>& numbers, ArchitectureValues& values) {
  const bool are_equal = std::ranges::all_of(numbers, [&](auto number) { return number == numbers.front(); });
  if (are_equal)
    values.whole(key, static_cast<std::size_t>(numbers.front()));
  else
    values.wholes(key, numbers);
}

// Kimi delta attention; null if the model has none.
const GatedDeltaNetSpec* kimi_attention(const ModelSpec& spec) {
  const auto* const delta_net = first_part<GatedDeltaNetSpec>(spec);
  return delta_net != nullptr && delta_net->element_decays ? delta_net : nullptr;
}

// The KV heads of a layer; 0 without attention. llama.cpp caches a latent, which all heads share, as one KV
// head, but not in files with kv_b as one tensor.
std::size_t kv_heads_in_file(const BlockSpec& block, bool whole_kv_b) {
  if (const auto* const own = std::get_if<AttentionSpec>(&block.attention)) return own->num_key_value_heads;
  const auto* const latent = std::get_if<LatentAttentionSpec>(&block.attention);
  if (latent == nullptr) return 0;
  return whole_kv_b ? latent->num_attention_heads : 1;
}

// Whether any layer has a mixer, of Mamba-1, Mamba-2 or RWKV-7.
bool has_mixers(const ModelSpec& spec) {
  return first_mixer(spec) != nullptr || first_part<Mamba1Spec>(spec) != nullptr ||
         first_part<Rwkv7Spec>(spec) != nullptr;
}

// Writes the number of KV heads. Layers with a short convolution, Kimi delta attention or only a mixer have
// none.
void write_kv_heads(const ModelSpec& spec, ArchitectureValues& values) {
  const bool counts_others = first_part<ShortConvolutionSpec>(spec) != nullptr || has_mixers(spec) ||
                             kimi_attention(spec) != nullptr;
  std::vector<std::int32_t> heads;
  for (const BlockSpec& block : spec.blocks) {
    const std::size_t own = kv_heads_in_file(block, spec.names.gguf.whole_kv_b);
    if (own != 0 || counts_others) heads.push_back(static_cast<std::int32_t>(own));
  }
  write_of_layers("attention.head_count_kv", heads, values);
}

// Writes the number of query heads, which is that of the model in layers without attention.
void write_query_heads(const CheckpointConfig& config, const ModelSpec& spec, ArchitectureValues& values) {
  std::vector<std::int32_t> heads;
  for (const BlockSpec& block : spec.blocks) {
    const auto* const own = std::get_if<AttentionSpec>(&block.attention);
    heads.push_back(
        static_cast<std::int32_t>(own != nullptr ? own->num_attention_heads : config.num_attention_heads));
  }
  write_of_layers("attention.head_count", heads, values);
}

// Whether each layer has RoPE.
std::vector<bool> layers_with_rope(const ModelSpec& spec) {
  std::vector<bool> layers;
  for (const BlockSpec& block : spec.blocks) {
    const auto* const attention = std::get_if<AttentionSpec>(&block.attention);
    layers.push_back(attention != nullptr && attention->rope.has_value());
  }
  return layers;
}

// Writes the width of MLPs. In layers with experts instead, it is that of the first MLP, or intermediate_size
// without any. If any layer has neither, it is 0 there, and the experts' width in layers with experts.
void write_feed_forward(const CheckpointConfig& config, const ModelSpec& spec, ArchitectureValues& values) {
  std::vector<std::int32_t> sizes;
  for (const BlockSpec& block : spec.blocks)
    sizes.push_back(static_cast<std::int32_t>(intermediate_size(block.feed_forward)));
  if (std::ranges::find(sizes, 0) != sizes.end())
    return write_of_layers("feed_forward_length", sizes, values);
  const auto width_or = [](const BlockSpec& block, std::size_t otherwise) {
    const auto* const mlp = std::get_if<GatedMlpSpec>(&block.feed_forward);
    return mlp != nullptr ? mlp->intermediate_size : otherwise;
  };
  const auto first =
      std::ranges::find_if(spec.blocks, [&](const BlockSpec& block) { return width_or(block, 0) != 0; });
  const std::size_t usual =
      first == spec.blocks.end() ? config.intermediate_size : width_or(*first, config.intermediate_size);
  sizes.clear();
  for (const BlockSpec& block : spec.blocks)
    sizes.push_back(static_cast<std::int32_t>(width_or(block, usual)));
  write_of_layers("feed_forward_length", sizes, values);
}

// The first layer's attention with (or without) a window, or of any layer if there is no such layer.
const AttentionSpec& attention_with(bool window, const ModelSpec& spec) {
  for (const BlockSpec& block : spec.blocks) {
    const auto* const attention = std::get_if<AttentionSpec>(&block.attention);
    if (attention != nullptr && attention->pattern.window.has_value() == window) return *attention;
  }
  return *first_part<AttentionSpec>(spec);
}

void write_attention(const AttentionSpec& attention, const ModelSpec& spec, ArchitectureValues& values) {
  write_kv_heads(spec, values);
  const AttentionSpec& global = attention_with(false, spec);
  values.whole("attention.key_length", global.head_dim);
  values.whole("attention.value_length", global.value_dim());
  const AttentionSpec& local = attention_with(true, spec);
  if (local.head_dim != global.head_dim || local.num_key_value_heads != global.num_key_value_heads) {
    values.whole("attention.key_length_swa", local.head_dim);
    values.whole("attention.value_length_swa", local.value_dim());
  }
  values.number_if("attn_logit_softcapping", attention.softcap.value_or(0.0F));
}

// Recurrent layers use the metadata keys of state space models.
void write_recurrence(const CheckpointConfig& config, const ModelSpec& spec, ArchitectureValues& values) {
  if (first_part<ShortConvolutionSpec>(spec) != nullptr)
    write_numbers(kShortConvolutionNumbers, config.short_convolution, values);
  if (first_part<Mamba1Spec>(spec) != nullptr) write_mamba1(config.mamba1, values);
  if (first_part<Rwkv7Spec>(spec) != nullptr) write_numbers(kRwkv7Numbers, config.rwkv7, values);
  if (first_mixer(spec) != nullptr) {
    write_mamba(config.mamba, values);
    values.boolean("rope.scaling.finetuned", rope_of(spec) != nullptr);
  }
  if (first_part<GatedDeltaNetSpec>(spec) == nullptr) return;
  if (kimi_attention(spec) == nullptr) return write_delta_net(config.delta_net, values);
  values.whole("ssm.conv_kernel", config.delta_net.conv_kernel_dim);
  values.whole("kda.head_dim", config.delta_net.key_head_dim);
  if (config.delta_net.decay_floor == 0.0) return;
  values.number("kda.gate_lower_bound", config.delta_net.decay_floor);
  values.boolean("kda.safe_gate", true);
}

// The limits of shared experts and of MLPs, which some checkpoints do not list.
std::vector<double> shared_limits(const CheckpointConfig& config, const ModelSpec& spec) {
  std::vector<double> limits = config.experts.shared_swiglu_limits;
  if (!limits.empty()) return limits;
  for (const BlockSpec& block : spec.blocks) {
    const auto* const mlp = std::get_if<GatedMlpSpec>(&block.feed_forward);
    const MixtureOfExpertsSpec* const experts = experts_in(block);
    limits.push_back(mlp != nullptr ? mlp->limit : experts != nullptr ? experts->shared_limit : 0.0F);
  }
  return std::ranges::all_of(limits, [](double limit) { return limit == 0.0; }) ? std::vector<double>()
                                                                                : limits;
}

void write_experts(const CheckpointConfig& config, const ModelSpec& spec, ArchitectureValues& values) {
  const MixtureOfExpertsSpec* const experts = first_experts(spec);
  if (experts == nullptr) return;
  const bool is_deepseek = experts->router.correction_bias ||
                           first_part<LatentAttentionSpec>(spec) != nullptr ||
                           family_of(config.architecture).gguf.describes_router;
  if (is_deepseek) write_correction(config, experts->router, values);
  values.whole("expert_count", config.num_experts);
  values.whole("expert_used_count", config.experts.num_experts_per_tok);
  values.whole("expert_feed_forward_length", config.experts.moe_intermediate_size);
  values.whole_if("moe_latent_size", config.experts.moe_latent_size);
  values.whole_if("expert_shared_feed_forward_length", config.experts.shared_expert_intermediate_size);
  if (!is_deepseek && config.experts.n_shared_experts != 0) {  // Hunyuan's
    values.whole("expert_shared_count", config.experts.n_shared_experts);
    values.whole("expert_shared_feed_forward_length", experts->shared_intermediate_size);
  }
  values.numbers_if("swiglu_clamp_exp", config.experts.swiglu_limits);
  values.numbers_if("swiglu_clamp_shexp", shared_limits(config, spec));
}

// Whether each layer has a window.
std::vector<bool> windows_of(const ModelSpec& spec) {
  std::vector<bool> windows;
  for (const BlockSpec& block : spec.blocks) {
    const auto* const attention = std::get_if<AttentionSpec>(&block.attention);
    windows.push_back(attention != nullptr && attention->pattern.window);
  }
  return windows;
}

// Windows of GGUF files are narrower than a checkpoint's in one direction, and endless in the other.
void write_non_causal(const ModelSpec& spec, const std::string& model, ArchitectureValues& values) {
  require<ConfigError>(largest_window(spec) == 0,
                       "cannot write {} as a GGUF file: is_causal is false, expected layers without a "
                       "sliding window, found some with one; use the checkpoint without converting it",
                       model);
  values.boolean("attention.causal", false);
}

}  // namespace

void write_hyperparameters(const CheckpointConfig& config, const ModelSpec& spec, const std::string& model,
                           GgufValues& all) {
  const auto* const attention = first_part<AttentionSpec>(spec);
  const auto* const latent = first_part<LatentAttentionSpec>(spec);
  const bool has_attention = attention != nullptr || latent != nullptr;
  require<ConfigError>(has_attention || has_mixers(spec),
                       "cannot write {} as a GGUF file: expected attention or mixers, found none; use the "
                       "checkpoint without converting it",
                       model);
  const GgufFamily& gguf = family_of(config.architecture).gguf;
  const std::string& architecture = gguf.architecture_of(config);
  require<ConfigError>(!architecture.empty() && !gguf.read_only,
                       "cannot write {} as a GGUF file: expected a family that GGUF supports, found {}; use "
                       "the checkpoint without converting it",
                       model, config.architecture);
  all.text("general.architecture", architecture);
  ArchitectureValues values(architecture, all);
  values.whole("context_length", spec.max_position_embeddings);
  values.whole("embedding_length", spec.hidden_size);
  values.whole("block_count", spec.blocks.size());
  write_feed_forward(config, spec, values);
  values.whole("vocab_size", spec.vocab_size);
  if (has_attention)
    write_query_heads(config, spec, values);
  else
    values.whole("attention.head_count", 0);
  if (attention != nullptr) write_attention(*attention, spec, values);
  write_group_indexers(config, spec, values);
  if (latent != nullptr) {
    write_kv_heads(spec, values);
    write_latent_attention(*latent, spec.names.gguf.whole_kv_b, values);
    write_indexers(config, spec, architecture, all);
  }
  const NormSpec& norm = spec.final_norm ? *spec.final_norm : low_rank_connection_of(spec)->norm;
  values.number(
      norm.kind == NormSpec::Kind::rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon",
      norm.eps);
  if (!config.is_causal) write_non_causal(spec, model, values);
  values.whole_if("attention.sliding_window", largest_window(spec));
  values.number_if("attention.temperature_scale", config.llama_4_scaling_beta);
  values.number_if("final_logit_softcapping", spec.logit_softcap.value_or(0.0F));
  values.number_if("attention.clamp_kqv", config.clip_qkv);
  if (attention != nullptr && !attention->alibi_slopes.empty())
    values.number("attention.max_alibi_bias", config.alibi_bias_max);
  if (config.logit_scale != 1.0) values.number("logit_scale", config.logit_scale);
  values.boolean("use_parallel_residual", spec.blocks.front().wiring == BlockSpec::Wiring::parallel);
  if (gguf.stores_windows && largest_window(spec) != 0)
    values.booleans("attention.sliding_window_pattern", windows_of(spec));
  if (gguf.stores_rope_layers) values.booleans("attention.rope_pattern", layers_with_rope(spec));
  if (config.attention_value_scale != 1.0)
    values.number("attention.value_scale", config.attention_value_scale);
  if (const RopeSpec* const rope = rope_of(spec)) {
    write_rope(config, *rope, latent != nullptr, values);
    const RopeSpec& local = *rope_of(spec, true);
    // Files that list the layers with RoPE have one theta, so that check_header refuses models with two.
    if (local.theta != rope->theta && !gguf.stores_rope_layers)
      values.number("rope.freq_base_swa", local.theta);
    if (local.rotary_dim != rope->rotary_dim) values.whole("rope.dimension_count_swa", local.rotary_dim);
  }
  values.whole_if("attention.shared_kv_layers", config.num_kv_shared_layers);
  // llama.cpp expects the number, even if it is 0, from families that may have such inputs.
  if (family_of(config.architecture).defaults.layer_input.hidden_size != 0)
    values.whole("embedding_length_per_layer_input", config.layer_input.hidden_size);
  values.number_if("attention.scale", config.attention_multiplier);
  if (config.embedding_multiplier != 1.0) values.number("embedding_scale", config.embedding_multiplier);
  if (config.residual_multiplier != 1.0) values.number("residual_scale", config.residual_multiplier);
  if (config.logits_scaling != 1.0) values.number("logit_scale", config.logits_scaling);
  write_streams(config, spec, values);
  write_hash_table(config, spec, model, values);
  write_experts(config, spec, values);
  write_recurrence(config, spec, values);
}

}  // namespace tp
