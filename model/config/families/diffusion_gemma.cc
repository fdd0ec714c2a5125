// DiffusionGemma: Gemma 4 with experts, which turns canvases of random tokens into text. Tokens of the text
// and of a canvas are computed by the same weights, except for the factor of each block's output. Source:
// Google, DiffusionGemma, 2026, and its code in transformers.
#include "model/config/families/common.h"
#include "tp/internal/require.h"

#include <string>
#include <string_view>

namespace tp::families {
namespace {

ModelSpec diffusion_gemma_spec(const CheckpointConfig& config) {
  require<ConfigError>(
      !config.use_bidirectional_attention,
      "use_bidirectional_attention must be \"vision\" or absent for {}, found \"all\": tokens of "
      "its text see earlier tokens only; use another model",
      config.architecture);
  ModelSpec spec = gemma4().make_spec(config);
  for (BlockSpec& block : spec.blocks) block.canvas_output_scale = true;
  const NormSpec norm = *spec.final_norm;
  NormSpec plain = norm;
  plain.gain = false;
  spec.self_conditioning = SelfConditioningSpec{
      .norm = norm,
      .mlp = {.intermediate_size = config.intermediate_size, .activation = activation_of(config)},
      .embedding_norm = plain};
  spec.diffusion = DiffusionSpec{
      .mask_token = -1, .block_length = config.canvas_length, .canvas = true, .filtered_confidence = true};
  return spec;
}

// Only the factors of blocks' outputs are stored for the text, too.
BlockNames diffusion_gemma_block(const std::string& prefix) {
  constexpr std::string_view kOfCanvas = "decoder.";
  BlockNames names = gemma4().names.names_of_block(prefix);
  names.canvas_output_scale = names.output_scale;
  if (const std::size_t part = prefix.find(kOfCanvas); part != prefix.npos)
    names.output_scale.replace(part, kOfCanvas.size(), "encoder.language_model.");
  return names;
}

}  // namespace

Family diffusion_gemma() {
  Family family =
      derived(gemma4(), "DiffusionGemmaForBlockDiffusion", diffusion_gemma_spec, diffusion_gemma_block);
  family.aliases.clear();
  family.kind = ModelKind::diffusion;
  family.tied_by_outer_field = true;
  family.fixed_fields = {{"tie_word_embeddings", "true"},      {"attention_k_eq_v", "true"},
                         {"enable_moe_block", "true"},         {"num_kv_shared_layers", "0"},
                         {"hidden_size_per_layer_input", "0"}, {"use_double_wide_mlp", "false"}};
  family.names.part_prefix.clear();
  family.names.prefix = "model.decoder.";
  family.names.per_layer_inputs = {};
  family.names.self_conditioning = usual_names(kSelfConditioningTensors, "self_conditioning.");
  family.defaults.attention_k_eq_v = true;
  family.defaults.enable_moe_block = true;
  family.defaults.layer_input = {};
  family.defaults.final_logit_softcapping = 30.0;
  family.defaults.canvas_length = 256;
  family.gguf = {};
  return family;
}

}  // namespace tp::families
