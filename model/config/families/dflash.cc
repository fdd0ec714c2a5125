// DFlash drafters: layers of Qwen3 that draft a block of tokens at once. drafter_config translates the
// layouts of z-lab and DeepSpec. DSpark is DFlash with a Markov head.
#include "model/config/architectures.h"
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"
#include "tp/internal/require.h"

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

BlockNames dflash_block(const std::string& prefix) {
  BlockNames names = llama_block(prefix);
  names.drafter = {.projection = "fc",
                   .state_norm = "hidden_norm",
                   .markov_input = "markov_head.markov_w1",
                   .markov_output = "markov_head.markov_w2",
                   .confidence = "confidence_head.proj"};
  return names;
}

ModelSpec dflash_spec(const CheckpointConfig& config) {
  ModelSpec spec = qwen3_spec(config);
  const DrafterConfig& drafter = config.drafter;
  spec.tied_embeddings = false;
  spec.drafter = DrafterSpec{
      .streams = captured_streams(drafter),
      .stream_size = drafter.target_hidden_size != 0 ? drafter.target_hidden_size : config.hidden_size,
      .norm = spec.final_norm.value(),
      .block = DraftBlockSpec{.size = drafter.block_size,
                              .mask_token = drafter.mask_token,
                              .samples_from_anchor = drafter.sample_from_anchor}};
  return spec;
}

ModelSpec dspark_spec(const CheckpointConfig& config) {
  ModelSpec spec = dflash_spec(config);
  const DrafterConfig& drafter = config.drafter;
  spec.drafter->keeps_normed_output = true;  // the confidence head reads it
  spec.drafter->block->markov = MarkovSpec{.rank = drafter.markov_rank,
                                           .has_confidence = drafter.enable_confidence_head,
                                           .confidence_reads_token = drafter.confidence_head_with_markov};
  return spec;
}

// Files count the layers before a stream, config.json those whose outputs are streams.
nlohmann::json dflash_in_gguf(const ModelMetadata& model) {
  for (const char* const tensor : {"markov_w1.weight", "selector_hidden.weight", "d2t"}) {
    require<ConfigError>(!model.has_tensor(tensor),
                         "{}: this drafter is not supported as a GGUF file: expected plain DFlash, found the "
                         "tensor {}; use the original checkpoint",
                         model.files().name(), tensor);
  }
  require<ConfigError>(
      !model.has("hyper_connection_count") && !model.has_tensor("blk.0.attn_sinks.weight"),
      "{}: this drafter is not supported: expected layers of Qwen3, found others; use another "
      "drafter",
      model.files().name());
  std::vector<std::int64_t> layers;
  for (const std::uint64_t place : model.wholes("target_layers"))
    layers.push_back(static_cast<std::int64_t>(place) - 1);
  return {{"target_layer_ids", layers},
          {"block_size", model.whole("block_size")},
          {"mask_token_id", model.files().metadata().whole("tokenizer.ggml.mask_token_id")},
          {"use_sliding_window", model.whole_or("attention.sliding_window", 0) != 0}};
}

}  // namespace

Family dflash() {
  Family family = llama_like("DFlashDraftModel", dflash_spec, dflash_block);
  family.kind = ModelKind::drafter;
  family.defaults.drafter.kind = DrafterKind::dflash;
  family.names.prefix.clear();
  family.names.gguf.block.drafter = {.projection = "fc", .state_norm = "enc.output_norm"};
  family.gguf = {.architecture = "dflash", .config = dflash_in_gguf, .read_only = true};
  return family;
}

Family dspark() {
  Family family = derived(dflash(), "Qwen3DSparkModel", dspark_spec);
  family.defaults.drafter.kind = DrafterKind::dspark;
  family.gguf = {};
  return family;
}

}  // namespace tp::families
