#include "runtime/engine_setup.h"

#include "model/architectures.h"
#include "model/checkpoint/open_checkpoint.h"
#include "model/checkpoint/synthetic_weights.h"
#include "model/config.h"
#include "tp/error.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

namespace tp {
namespace {

// Bytes of memory that the kernel expects to be able to give, or nothing known.
std::size_t available_memory() {
  std::ifstream meminfo("/proc/meminfo");
  std::string field;
  std::size_t kilobytes = 0;
  while (meminfo >> field >> kilobytes) {
    if (field == "MemAvailable:") return kilobytes << 10;
    meminfo.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::numeric_limits<std::size_t>::max();
}

// The type of most weights in memory.
WeightType held_type(const EnginePlan& plan) {
  return plan.weight_type().value_or(lossless_type(plan.config.torch_dtype));
}

// Bytes of one token's keys and values, in all layers, on all ranks of a host together (at most).
std::size_t cache_bytes_of_token(const DecoderSpec& spec, const EnginePlan& plan, std::size_t ranks,
                                 std::size_t ranks_on_host) {
  std::size_t bytes = 0;
  for (const BlockSpec& block : spec.blocks) {
    bytes += kv_layout(block.attention, {0, ranks}, plan.kv_type, plan.block_size).block_bytes();
  }
  return (bytes + plan.block_size - 1) / plan.block_size * ranks_on_host;
}

// The tokens that all sequences can have together, but no more than fit in half of what the weights leave of
// memory.
std::size_t choose_cache_tokens(const EngineOptions& options, const DecoderSpec& spec, const EnginePlan& plan,
                                std::size_t ranks, std::size_t ranks_on_host) {
  if (options.cache_tokens != 0) return options.cache_tokens;
  const std::size_t weights = local_weight_bytes(spec, {0, ranks}, held_type(plan)) * ranks_on_host;
  const std::size_t available = available_memory();
  const std::size_t budget = available > weights ? (available - weights) / 2 : 0;
  const std::size_t fitting = budget / cache_bytes_of_token(spec, plan, ranks, ranks_on_host);
  const std::size_t one_sequence = std::min<std::size_t>(plan.max_length, 2048);
  return std::clamp(fitting, one_sequence, std::max(one_sequence, options.max_sequences * plan.max_length));
}

void check_options(const EngineOptions& options) {
  require<ConfigError>(options.weights == "auto" || find_weight_type(options.weights),
                       "--weights must be auto, f32, f16, bf16, int8 or int4, found \"{}\"", options.weights);
  require<ConfigError>(options.kv_type == "auto" || find_kv_type(options.kv_type),
                       "--kv-type must be auto, f32, bf16 or int8, found \"{}\"", options.kv_type);
  require<ConfigError>(options.prefill_chunk >= 1 && options.prefill_chunk <= 65536,
                       "--prefill-chunk must be in 1..65536 tokens, found {}", options.prefill_chunk);
  require<ConfigError>(options.max_sequences >= 1 && options.max_sequences <= 4096,
                       "--max-batch must be in 1..4096 sequences, found {}", options.max_sequences);
  require<ConfigError>(options.block_size >= 1 && options.block_size <= 1024,
                       "a cache block must hold 1..1024 tokens, found {}", options.block_size);
}

}  // namespace

StepLimits EnginePlan::step_limits(std::size_t threads) const {
  const std::size_t tokens = std::max(prefill_chunk, max_sequences);
  return {.tokens = tokens,
          .outputs = tokens,
          .threads = threads,
          .kv_type = kv_type,
          .block_size = block_size,
          .max_blocks = (max_length + block_size - 1) / block_size};
}

EnginePlan make_plan(const EngineOptions& options, std::size_t ranks, std::size_t ranks_on_host) {
  check_options(options);
  EnginePlan plan;
  plan.config = load_config(options.model);
  const DecoderSpec spec = make_spec(plan.config);
  for (const BlockSpec& block : spec.blocks) {
    kv_layout(block.attention, {0, ranks}, KvType::f32, options.block_size);  // refuses too many ranks
  }
  plan.model = options.model.string();
  plan.synthetic = options.synthetic;
  plan.weights = options.weights;
  plan.kv_type = find_kv_type(options.kv_type).value_or(default_kv_type(held_type(plan)));
  plan.block_size = options.block_size;
  plan.prefill_chunk = options.prefill_chunk;
  plan.max_sequences = options.max_sequences;
  plan.max_length = spec.max_position_embeddings;
  if (options.max_length != 0) plan.max_length = std::min<std::uint64_t>(plan.max_length, options.max_length);
  const std::size_t cache_tokens = choose_cache_tokens(options, spec, plan, ranks, ranks_on_host);
  plan.cache_blocks = (cache_tokens + plan.block_size - 1) / plan.block_size;
  return plan;
}

std::optional<WeightType> EnginePlan::weight_type() const { return find_weight_type(weights); }

std::unique_ptr<WeightSource> open_weights(const EnginePlan& plan) {
  if (plan.synthetic) return std::make_unique<SyntheticWeights>(plan.config.torch_dtype);
  return open_checkpoint(plan.model);
}

}  // namespace tp
