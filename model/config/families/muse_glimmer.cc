// Muse Glimmer: Llama with normed embeddings, gated attention outputs, norms after attention and MLP, and
// softcapped logits. Layers with a window have RoPE; the other layers have no RoPE.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"
#include "model/weights/gguf/gguf_vector.h"
#include "tp/internal/require.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

ModelSpec muse_glimmer_spec(CheckpointConfig config) {
  // Counting backwards, the last layer and every fourth layer before it have full attention.
  const auto is_local = [layers = config.num_hidden_layers](std::size_t layer) {
    return (layers - 1 - layer) % 4 != 0;
  };
  if (config.no_rope_layers.empty()) {
    for (std::size_t layer = 0; layer < config.num_hidden_layers; ++layer)
      config.no_rope_layers.push_back(is_local(layer) ? 1 : 0);
  }
  ModelSpec spec = llama_spec(config);
  const NormSpec norm{.eps = static_cast<float>(config.rms_norm_eps), .gain_offset = 1.0F};
  NormSpec plain = norm;
  plain.gain = false;
  NormSpec post_norm = norm;
  if (config.post_norm_eps != 0) post_norm.eps = static_cast<float>(config.post_norm_eps);
  spec.embedding_norm = plain;
  if (config.final_logit_softcapping != 0)
    spec.logit_softcap = static_cast<float>(config.final_logit_softcapping);
  for (BlockSpec& block : spec.blocks) {
    block.input_norm = block.pre_feed_forward_norm = norm;
    block.post_attention_norm = block.post_feed_forward_norm = post_norm;
    AttentionSpec& attention = attention_of(block);
    attention.query_key_norm = plain;
    attention.output_gate = true;
    attention.scale *= static_cast<float>(config.qk_scale_factor);
  }
  set_windows(config, spec, is_local);
  remove_rope(config, spec);
  return spec;
}

BlockNames muse_glimmer_block(const std::string& prefix) {
  BlockNames names = llama_block(prefix);
  names.q_norm.clear();
  names.k_norm.clear();
  names.attention_gate = prefix + "self_attn.gate_proj";
  names.post_attention_norm = prefix + "post_attention_layernorm";
  names.pre_feed_forward_norm = prefix + "pre_feedforward_layernorm";
  names.post_feed_forward_norm = prefix + "post_feedforward_layernorm";
  return names;
}

// Returns the value that all elements of a vector have. Throws CheckpointError if elements differ or the
// tensor is missing.
float element_of(const ModelMetadata& model, const std::string& tensor) {
  const std::vector<float> values = gguf_vector(model.files(), tensor);
  if (values.empty() || std::ranges::any_of(values, [&](float x) { return x != values.front(); })) {
    throw_error<CheckpointError>(
        "{}: expected a tensor {} with one value throughout, which is a factor of attention scores, found "
        "{}; convert the checkpoint to GGUF again",
        model.files().name(), tensor, values.empty() ? "none" : "several values");
  }
  return values.front();
}

// Files store the factor of attention scores as gains of norms.
double score_factor(const ModelMetadata& model) {
  const auto factor_of = [&](std::uint64_t layer) {
    return element_of(model, fmt::format("blk.{}.attn_q_norm.weight", layer)) *
           element_of(model, fmt::format("blk.{}.attn_k_norm.weight", layer));
  };
  const float factor = factor_of(0);
  for (std::uint64_t layer = 1; layer < model.whole("block_count"); ++layer) {
    const float found = factor_of(layer);
    require<CheckpointError>(found == factor,
                             "{}: the gains of attn_q_norm and attn_k_norm must be those of layer 0, {}, in "
                             "layer {}, found {}; convert the checkpoint to GGUF again",
                             model.files().name(), factor, layer, found);
  }
  return factor;
}

nlohmann::json muse_glimmer_config(const ModelMetadata& model) {
  nlohmann::json config = gguf_windows(model);
  config.update({{"qk_scale_factor", score_factor(model)},
                 {"output_multiplier", model.number("logit_scale")},
                 {"final_logit_softcapping", model.number_or("final_logit_softcapping", 0.0)}});
  if (!config.contains("layer_types")) return config;
  for (const nlohmann::json& type : config["layer_types"])
    config["no_rope_layers"].push_back(type == "sliding_attention" ? 1 : 0);
  return config;
}

}  // namespace

Family muse_glimmer() {
  Family family{.architecture = "MuseGlimmerForConditionalGeneration",
                .names = llama_names(),
                .make_spec = [](const CheckpointConfig& config) { return muse_glimmer_spec(config); }};
  family.names.part_prefix = "language_model.";
  family.names.names_of_block = muse_glimmer_block;
  family.names.buffers.insert(family.names.buffers.end(), {".attn_q_norm.weight", ".attn_k_norm.weight"});
  family.names.gguf.interleaved_query_key = true;
  family.names.gguf.norm_offset = 1.0F;
  family.names.gguf.offset_final_norm = false;
  family.names.gguf.query_norm_is_scale = true;
  family.gguf = {.architecture = "muse-glimmer", .config = muse_glimmer_config, .stores_windows = true};
  family.defaults.hidden_size = 6656;
  family.defaults.intermediate_size = 19968;
  family.defaults.num_hidden_layers = 52;
  family.defaults.num_attention_heads = 32;
  family.defaults.num_key_value_heads = 2;
  family.defaults.head_dim = 128;
  family.defaults.vocab_size = 202048;
  family.defaults.max_position_embeddings = 131072;
  family.defaults.rms_norm_eps = 1e-5;
  family.defaults.post_norm_eps = 1e-8;
  family.defaults.sliding_window = 2048;
  family.defaults.rope_theta = 500000;
  family.defaults.final_logit_softcapping = 20;
  family.defaults.qk_scale_factor = 3.87;
  family.defaults.logit_scale = 0.19611613513818404;  // 1 / sqrt(6656 / 256)
  return family;
}

}  // namespace tp::families
