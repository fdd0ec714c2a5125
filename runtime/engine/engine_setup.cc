#include "runtime/engine/engine_setup.h"

#include "model/config/architectures.h"
#include "model/config/config.h"
#include "model/weights/checkpoint/synthetic_weights.h"
#include "model/weights/open_checkpoint.h"
#include "model/weights/synthetic_blocks.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace tp {
namespace {

void check_options(const EngineOptions& options) {
  require<ConfigError>(options.prefill_chunk >= 1 && options.prefill_chunk <= 65536,
                       "`prefill_chunk` must be in 1..65536 tokens, found {}", options.prefill_chunk);
  require<ConfigError>(options.max_sequences >= 1 && options.max_sequences <= 4096,
                       "`max_sequences` must be in 1..4096, found {}", options.max_sequences);
  require<ConfigError>(std::isfinite(options.step_ms) && options.step_ms >= 0.0,
                       "`step_ms` must be a number of milliseconds, or 0 for no limit, found {}",
                       options.step_ms);
  require<ConfigError>(options.block_size >= 1 && options.block_size <= 1024,
                       "`block_size` must be in 1..1024 tokens, found {}", options.block_size);
  require<ConfigError>(
      !options.weights || options.synthetic || is_convertible(*options.weights),
      "`weights` must be a type to which weights can be converted, f32 to int4, found {}; files "
      "that store such weights keep them without it",
      name_of(options.weights.value_or(WeightType::f32)));
}

}  // namespace

DecoderSpec EnginePlan::spec() const {
  DecoderSpec spec = make_spec(config);
  spec.max_position_embeddings = max_length;
  spec.same_bits = same_bits;
  return spec;
}

StepLimits EnginePlan::step_limits() const {
  const std::size_t tokens = std::max(prefill_chunk, max_sequences);
  return {.tokens = tokens,
          .outputs = tokens,
          .kv_type = kv_type,
          .block_size = block_size,
          .max_blocks = (max_length + block_size - 1) / block_size};
}

CacheShape EnginePlan::cache_shape(const CacheGroups& groups) const {
  return {.block_size = block_size, .chunk = prefill_chunk, .windows = groups.windows};
}

EnginePlan make_plan(const EngineOptions& options, std::size_t ranks) {
  check_options(options);
  EnginePlan plan;
  plan.config = load_config(options.model);
  const DecoderSpec spec = make_spec(plan.config);
  Decoder::shape_of(spec, SyntheticWeights(), {0, ranks}, {});  // throws if there are too many ranks
  plan.model = options.model.string();
  plan.synthetic = options.synthetic;
  plan.same_bits = options.same_bits;
  if (options.weights && !is_convertible(*options.weights))
    plan.synthetic_blocks = options.weights;
  else
    plan.weights = options.weights;
  plan.kv_type = options.kv_type.value_or(
      default_kv_type(usual_weight_type(plan, SyntheticWeights(plan.config.torch_dtype))));
  plan.block_size = options.block_size;
  plan.prefill_chunk = options.prefill_chunk;
  plan.max_sequences = options.max_sequences;
  plan.max_length = spec.max_position_embeddings;
  if (options.max_length != 0) plan.max_length = std::min<std::uint64_t>(plan.max_length, options.max_length);
  return plan;
}

WeightType usual_weight_type(const EnginePlan& plan, const WeightSource& source) {
  if (plan.weights) return *plan.weights;
  const std::vector<TypeUse> stored = source.types();
  const bool known = !stored.empty() && stored.front().held_as;
  return known ? *stored.front().held_as : lossless_type(plan.config.torch_dtype);
}

std::unique_ptr<WeightSource> open_weights(const EnginePlan& plan) {
  if (plan.synthetic_blocks) return std::make_unique<SyntheticBlocks>(*plan.synthetic_blocks);
  if (plan.synthetic) return std::make_unique<SyntheticWeights>(plan.config.torch_dtype);
  return open_checkpoint(plan.model);
}

}  // namespace tp
