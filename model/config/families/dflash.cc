// DFlash drafters: layers of Qwen3 that draft a block of tokens at once. drafter_config translates the
// layouts of z-lab and DeepSpec. DSpark is DFlash with a Markov head.
#include "model/config/architectures.h"
#include "model/config/families/common.h"

#include <string>

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

}  // namespace

Family dflash() {
  Family family = llama_like("DFlashDraftModel", dflash_spec, dflash_block);
  family.kind = ModelKind::drafter;
  family.defaults.drafter.kind = DrafterKind::dflash;
  family.names.prefix.clear();
  return family;
}

Family dspark() {
  Family family = derived(dflash(), "Qwen3DSparkModel", dspark_spec);
  family.defaults.drafter.kind = DrafterKind::dspark;
  return family;
}

}  // namespace tp::families
