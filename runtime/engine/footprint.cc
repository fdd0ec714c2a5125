#include "runtime/engine/footprint.h"

namespace tp {
namespace {

constexpr std::uint64_t kAllowance = std::uint64_t{64} << 20;

}  // namespace

MemoryNeed Footprint::of(TpRank tp, std::optional<WeightType> weights) const {
  const Decoder decoder = Decoder::shape_of(spec_, source_, tp, weights ? weights : plan_.weights);
  return {.weights = decoder.weight_bytes(),
          .workspace = decoder.workspace_floats(plan_.step_limits()) * sizeof(float),
          .other = kAllowance,
          .cache_block = block_bytes(decoder.kv_layouts(plan_.kv_type, plan_.block_size), groups_)};
}

}  // namespace tp
