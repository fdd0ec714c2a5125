#include "runtime/setup/drafter_plan.h"

#include "model/config/architectures.h"
#include "model/weights/borrowed_tables.h"
#include "model/weights/open_checkpoint.h"
#include "tp/internal/require.h"

#include <map>
#include <string>
#include <utility>

namespace tp {
namespace {

std::string embedding_of(const TensorNames& names) { return tensor_names::weight_of(names.embed_tokens); }
std::string head_of(const TensorNames& names) { return tensor_names::weight_of(names.lm_head); }

// Throws ConfigError if a target does more with its tables than to look up and multiply rows, because a
// drafter with such a target has not been tested.
void require_plain_tables(const EnginePlan& drafter, const ModelSpec& target) {
  const bool is_plain_embedding = target.embedding_scale == 1.0F && !target.embedding_norm &&
                                  target.embedding_size == 0 && target.learned_positions == 0 &&
                                  target.token_types == 0 && !target.sinusoidal_positions;
  const bool is_plain_head =
      !target.head_transform && !target.lm_head_bias && !target.logit_softcap && target.logit_scale == 1.0F;
  require<ConfigError>(
      is_plain_embedding && is_plain_head,
      "cannot draft tokens with {}: expected a drafter with its own embedding and LM head, because "
      "{} changes its vectors or its logits, found a drafter without them; use another drafter",
      drafter.options.model.string(), drafter.target->config.architecture);
}

}  // namespace

void require_fits(const EnginePlan& drafter, const EnginePlan& target) {
  const std::string name = drafter.options.model.string();
  const ModelSpec own = drafter.spec();
  const ModelSpec spec = target.spec();
  require<ConfigError>(
      target.options.pipeline == 1,
      "cannot draft tokens with {}: expected ranks that all have the model's hidden states, found {} stages "
      "of `pipeline`, each of which has the states of its own layers; leave `pipeline` out, or use a "
      "different kind of drafts",
      name, target.options.pipeline);
  require<ConfigError>(
      streams_of(spec) == 1,
      "cannot draft tokens with {}: expected a model with one residual stream, found {} with {}; "
      "use a different kind of drafts",
      name, target.config.architecture, streams_of(spec));
  require<ConfigError>(own.drafter->stream_size == spec.hidden_size,
                       "cannot draft tokens with {}: expected a target whose hidden_size is {}, as its "
                       "config.json says, found {}; "
                       "use the target for which the drafter was trained",
                       name, own.drafter->stream_size, spec.hidden_size);
  const std::size_t block = own.drafter->block ? own.drafter->block->size : 0;
  require<ConfigError>(block <= drafter.step_limits().tokens,
                       "cannot draft tokens with {}: expected steps of at least {} tokens, the size of its "
                       "blocks, found {}; increase `prefill_chunk` or `max_sequences`",
                       name, block, drafter.step_limits().tokens);
  captured_places(drafter.config.drafter, spec.blocks.size());  // throws if layers are missing
}

std::unique_ptr<WeightSource> open_drafter(const EnginePlan& plan) {
  std::unique_ptr<WeightSource> own = open_checkpoint(plan.options.model, plan.config);
  const TensorNames names = plan.spec().names.as_stored_in(*own);
  const bool has_embedding = own->contains(embedding_of(names));
  const bool has_head = own->contains(head_of(names));
  if (has_embedding && has_head) return own;
  require<ConfigError>(has_head || !has_embedding || !plan.config.tie_word_embeddings,
                       "cannot draft tokens with {}: expected an LM head, in the checkpoint or the target's, "
                       "found "
                       "an embedding that is also the LM head (tie_word_embeddings); use another drafter",
                       plan.options.model.string());
  const ModelSpec spec = plan.target->spec();
  require_plain_tables(plan, spec);
  std::unique_ptr<WeightSource> target = open_weights(*plan.target);
  const TensorNames others = spec.names.as_stored_in(*target);
  // Tied tables are stored under one of the names.
  const auto stored = [&](const std::string& name, const std::string& other) {
    return spec.tied_embeddings && !target->contains(name) ? other : name;
  };
  std::map<std::string, std::string> borrowed;
  if (!has_embedding) borrowed[embedding_of(names)] = stored(embedding_of(others), head_of(others));
  if (!has_head)
    borrowed[head_of(names)] =
        spec.tied_embeddings ? stored(embedding_of(others), head_of(others)) : head_of(others);
  require<ConfigError>(
      has_head || plan.spec().drafter->draft_vocab_size == 0,
      "cannot draft tokens with {}: expected an LM head of {} rows (draft_vocab_size), found no {}; download "
      "the drafter again",
      plan.options.model.string(), plan.spec().drafter->draft_vocab_size, head_of(names));
  return std::make_unique<BorrowedTables>(std::move(own), std::move(target), std::move(borrowed));
}

SameTables tables_of_target(const EnginePlan& drafter) {
  const std::unique_ptr<WeightSource> own = open_checkpoint(drafter.options.model, drafter.config);
  const TensorNames names = drafter.spec().names.as_stored_in(*own);
  return {!own->contains(embedding_of(names)), !own->contains(head_of(names))};
}

std::vector<std::size_t> captured_places(const EnginePlan& drafter) {
  return captured_places(drafter.config.drafter, drafter.target->spec().blocks.size());
}

}  // namespace tp
