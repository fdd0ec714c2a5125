// EAGLE-3 drafters: one block of Llama whose attention reads the token's vector beside the state.
// drafter_config translates the layouts of SafeAILab, SpecForge and speculators.
#include "model/config/architectures.h"
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"

#include <string>

#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

BlockNames eagle3_block(const std::string& prefix) {
  BlockNames names = llama_block(prefix);
  names.input_norm = prefix + "hidden_norm";
  names.drafter = {.projection = "fc",
                   .stream_norms = "fc_norm.",
                   .all_streams_norm = "input_norm",
                   .embedding_norm = prefix + "input_layernorm",
                   .state_norm = names.input_norm};
  return names;
}

ModelSpec eagle3_spec(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  const DrafterConfig& drafter = config.drafter;
  BlockSpec& block = spec.blocks.front();
  attention_of(block).input_size = 2 * config.hidden_size;
  block.joins_layer_input = true;
  const NormSpec norm = block.input_norm.value();
  if (drafter.norm_before_residual) block.input_norm.reset();
  spec.tied_embeddings = false;
  spec.drafter = DrafterSpec{
      .streams = captured_streams(drafter),
      .stream_size = drafter.target_hidden_size != 0 ? drafter.target_hidden_size : config.hidden_size,
      .norm = norm,
      .norms_streams = drafter.fc_norm,
      .norms_all_streams = drafter.norm_before_fc,
      .norms_state = drafter.norm_before_residual,
      .keeps_normed_output = drafter.norm_output,
      .draft_vocab_size = drafter.draft_vocab_size == config.vocab_size ? 0 : drafter.draft_vocab_size};
  return spec;
}

// Files before `target_layers` have `extract_layers`. Both count the layers before a stream.
nlohmann::json eagle3_in_gguf(const ModelMetadata& model) {
  const char* const layers = model.has("target_layers") ? "target_layers" : "extract_layers";
  nlohmann::json config = {{"eagle_aux_hidden_state_layer_ids", model.wholes(layers)},
                           {"target_hidden_size", model.whole("target_hidden_size")},
                           {"norm_before_residual", model.boolean_or("norm_before_residual", false)},
                           {"norm_before_fc", model.boolean_or("norm_before_fc", false)},
                           {"is_causal", true}};
  if (const GgufFiles::Entry* const ids = model.files().find("d2t"))
    config["draft_vocab_size"] = ids->tensor.shape.front();
  return config;
}

}  // namespace

Family eagle3() {
  Family family = llama_like("LlamaForCausalLMEagle3", eagle3_spec, eagle3_block);
  family.kind = ModelKind::drafter;
  family.defaults.drafter.kind = DrafterKind::eagle3;
  family.names.prefix.clear();
  family.names.lone_block = "midlayer.";
  family.names.draft_ids = "d2t";
  family.names.buffers.insert(family.names.buffers.end(), {"d2t", "t2d"});
  family.names.gguf.interleaved_query_key = true;
  family.names.gguf.block.input_norm = "attn_norm_2";
  family.names.gguf.block.drafter = {
      .projection = "fc", .all_streams_norm = "enc.output_norm", .embedding_norm = "attn_norm"};
  family.gguf = {.architecture = "eagle3", .config = eagle3_in_gguf, .read_only = true};
  return family;
}

}  // namespace tp::families
