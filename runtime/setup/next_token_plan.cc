#include "runtime/setup/next_token_plan.h"

#include "model/config/architectures.h"
#include "runtime/cache/hidden_states.h"
#include "runtime/setup/drafter_plan.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <array>
#include <string>

namespace tp {
namespace {

// Tensors that every checkpoint with the layer contains: its projection, and one of its block, which files
// may lack even if they have kept the projection.
std::array<std::string, 2> tensors_of_layer(const EnginePlan& model, const WeightSource& source) {
  const TensorNames names = make_next_token_spec(model.config).names.as_stored_in(source);
  const BlockNames block = names.block(0);
  return {tensor_names::weight_of(block.next_token.projection), tensor_names::weight_of(block.input_norm)};
}

}  // namespace

bool has_next_token_layer(const EnginePlan& model) {
  const bool may_have = family_of(model.config.architecture).make_next_token_spec != nullptr;
  // Synthetic weights draft nothing useful.
  if (!may_have || model.options.pipeline != 1 || model.options.synthetic) return false;
  const std::unique_ptr<WeightSource> source = open_weights(model);
  return std::ranges::all_of(tensors_of_layer(model, *source),
                             [&](const std::string& tensor) { return source->contains(tensor); });
}

void require_next_token_layer(const EnginePlan& model) {
  require<ConfigError>(
      model.options.pipeline == 1,
      "cannot draft tokens by multi-token prediction: expected ranks that all have the model's last hidden "
      "states, found {} stages of `pipeline`, the last of which has them; leave `pipeline` out, or use a "
      "different kind of drafts",
      model.options.pipeline);
  const std::unique_ptr<WeightSource> source = open_weights(model);
  for (const std::string& tensor : tensors_of_layer(model, *source)) {
    require<CheckpointError>(
        source->contains(tensor),
        "cannot draft tokens by multi-token prediction: expected the model's layer for it, with {}, found no "
        "such tensor in {}; take a checkpoint that has kept the layer, or use a different kind of drafts",
        tensor, model.options.model.string());
  }
}

EnginePlan next_token_plan(std::size_t ranks, const EnginePlan& model) {
  EnginePlan plan = model;
  plan.next_token = true;
  plan.options.favor_features = 0;
  plan.overlaps = false;
  plan.options.pretend_ranks = 0;
  plan.options.packed_cache.clear();
  plan.options.kv_store.clear();
  plan.ranks = ranks;
  if (plan.options.split.size() != ranks) plan.options.split.clear();
  plan.not_shared_because.clear();
  share_caches(plan, {});
  return plan;
}

bool reads_states(const EnginePlan& draft) { return draft.next_token || is_drafter(draft); }

std::size_t states_read(const EnginePlan& draft) {
  constexpr std::uint64_t kOfSequence = 64;
  constexpr std::uint64_t kMax = 4096;  // 117 MB for DeepSeek-V3
  return draft.step_limits().tokens + std::min(kOfSequence * draft.options.max_sequences, kMax);
}

std::size_t size_of_read_state(const EnginePlan& draft) {
  const ModelSpec spec = draft.spec();
  return spec.drafter ? spec.drafter->streams * spec.drafter->stream_size : state_size(spec);
}

std::uint64_t bytes_of_states(const EnginePlan& draft) {
  return HiddenStates::bytes_of(states_read(draft), size_of_read_state(draft)) +
         HiddenStates::bytes_of(draft.options.max_sequences, state_size(draft.spec()));
}

}  // namespace tp
