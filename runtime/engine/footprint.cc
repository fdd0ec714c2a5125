#include "runtime/engine/footprint.h"

#include "model/layers/block_parts.h"

namespace tp {
namespace {

constexpr std::uint64_t kAllowance = std::uint64_t{64} << 20;

// Of a checkpoint with several types: every layer is taken to have as much of each as the whole has.
std::vector<std::pair<WeightType, double>> shares_of(const EnginePlan& plan,
                                                     const std::vector<TypeUse>& stored) {
  const WeightType usual = lossless_type(plan.config.torch_dtype);
  if (plan.weights || stored.empty()) return {{plan.weights.value_or(usual), 1.0}};
  double all = 0.0;
  for (const TypeUse& use : stored) all += static_cast<double>(use.elements);
  std::vector<std::pair<WeightType, double>> shares;
  for (const TypeUse& use : stored)
    shares.emplace_back(use.held_as.value_or(usual), static_cast<double>(use.elements) / all);
  return shares;
}

}  // namespace

Footprint::Footprint(const DecoderSpec& spec, const EnginePlan& plan, const std::vector<TypeUse>& stored,
                     std::size_t threads)
    : spec_(spec), limits_(plan.step_limits(threads)), shares_(shares_of(plan, stored)) {}

MemoryNeed Footprint::of(TpRank part, std::optional<WeightType> weights) const {
  MemoryNeed need{.workspace = decoder_workspace(spec_, part, limits_) * sizeof(float), .other = kAllowance};
  if (weights) {
    need.weights = local_weight_bytes(spec_, part, *weights);
  } else {
    double bytes = 0.0;
    for (const auto& [type, share] : shares_)
      bytes += share * static_cast<double>(local_weight_bytes(spec_, part, type));
    need.weights = static_cast<std::uint64_t>(bytes);
  }
  for (const BlockSpec& block : spec_.blocks)
    need.cache_block += kv_layout(block.attention, part, limits_.kv_type, limits_.block_size).block_bytes();
  return need;
}

}  // namespace tp
