#include "runtime/setup/footprint.h"

#include "model/weights/two_phase_reader.h"
#include "runtime/cache/soft_embeddings.h"

namespace tp {
namespace {

constexpr std::uint64_t kAllowance = std::uint64_t{64} << 20;

std::uint64_t soft_embedding_bytes(const ModelSpec& spec, const EnginePlan& plan) {
  if (!spec.self_conditioning || !spec.diffusion) return 0;
  return SoftEmbeddings::bytes_of(plan.options.max_sequences, spec.diffusion->block_length, spec.hidden_size);
}

}  // namespace

MemoryNeed Footprint::of(TpRank tp, std::optional<WeightType> weights, Stage stage,
                         const VocabTables& others) const {
  const Model model = Model::shape_of(spec_, source_, tp, weights ? weights : plan_.weights(), stage, others);
  const CacheGroups groups =
      stage.is_whole() ? groups_ : groups_.with_layers(stage.layers(spec_.blocks.size()));
  const std::vector<kernels::KvLayout> layouts = model.kv_layouts(plan_.kv_type(), plan_.options.block_size);
  const CacheSlices slices = plan_.cache_slices(spec_, stage, tp, blocks_);
  return {.weights = model.weight_bytes(),
          .workspace = model.workspace_floats(plan_.step_limits()) * sizeof(float) +
                       HostCache{slices, plan_.step_limits().max_blocks}.exchange_bytes(layouts),
          .other = kAllowance,
          .states = StateCache::slot_bytes(model.state_floats()) * plan_.cache_shape(groups_).states +
                    soft_embedding_bytes(spec_, plan_),
          .cache_block = block_bytes(layouts, groups, slices),
          .whole_block = host_block_bytes(layouts, groups, slices),
          .loading = model.largest_columns() + 2 * TwoPhaseReader::kRoundBytes,
          .adapters = model.adapter_bytes(),
          .tables = model.table_bytes()};
}

}  // namespace tp
