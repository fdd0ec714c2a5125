// What an engine is opened with, put together and agreed on by all ranks.
#pragma once

#include "model/config/config.h"
#include "model/layers/decoder.h"
#include "model/weights/checkpoint/weight_source.h"
#include "runtime/engine/cache_shape.h"
#include "tp/engine.h"

#include <cstdint>
#include <memory>
#include <optional>

namespace tp {

// Everything that follows from rank 0's options and files; equal on every rank.
struct EnginePlan {
  ModelConfig config;
  std::string model;
  bool synthetic = false;
  std::optional<WeightType> weights{};  // none: the type in which a weight is stored
  KvType kv_type = KvType::f32;
  std::uint64_t block_size = 0;
  std::uint64_t cache_blocks = 0;
  std::uint64_t prefill_chunk = 0;
  std::uint64_t max_sequences = 0;
  std::uint64_t max_length = 0;

  StepLimits step_limits() const;
  // Of a model whose layers are in these groups.
  CacheShape cache_shape(const CacheGroups& groups) const;

  bool operator==(const EnginePlan&) const = default;
};

// Reads config.json and decides what is not given, but for the cache's size: see runtime/engine/memory_plan.
// The cache's type is what config.json suggests, for want of the weights. Rank 0 only. Throws ConfigError or
// CheckpointError.
EnginePlan make_plan(const EngineOptions& options, std::size_t ranks);

// The type that most weights have in memory.
WeightType usual_weight_type(const EnginePlan& plan, const WeightSource& source);

// The checkpoint's files, or generated weights. Throws CheckpointError.
std::unique_ptr<WeightSource> open_weights(const EnginePlan& plan);

}  // namespace tp
