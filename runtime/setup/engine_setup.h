// The configuration that all ranks of an engine agree on.
#pragma once

#include "model/config/config.h"
#include "model/layers/decoder.h"
#include "model/weights/source/weight_source.h"
#include "runtime/cache/cache_shape.h"
#include "tp/engine.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tp {

// Everything that follows from rank 0's options and files; equal on every rank.
struct EnginePlan {
  ModelConfig config;
  std::string model;
  bool synthetic = false;
  std::optional<WeightType> weights{};  // none: every weight's stored type
  // Of synthetic weights: the quantized type that they are generated in, if any.
  std::optional<WeightType> synthetic_blocks{};
  KvType kv_type = KvType::f32;
  std::uint64_t block_size = 0;
  std::uint64_t cache_blocks = 0;
  std::uint64_t prefill_chunk = 0;
  std::uint64_t max_sequences = 0;
  std::uint64_t max_length = 0;
  bool same_bits = false;
  std::uint64_t favor_features = 0;  // 0: exact attention
  UnmaskCache unmask_cache = UnmaskCache::exact;
  WireType wire = WireType::f32;
  bool overlaps = false;        // whether steps may be computed as two half-batches
  std::uint64_t stages = 1;     // of the pipeline
  std::uint64_t ranks = 1;      // that a stage is divided among
  bool pretends = false;        // of whom only the first are there, see EngineOptions::pretend_ranks
  std::vector<double> split{};  // their shares, see TpRank
  bool next_token = false;      // not the model, but its layer that predicts the token after the next one

  // What a rank of the communicator owns of the model. Refers to this plan.
  TpRank tp(std::size_t rank) const { return {rank, ranks, split}; }
  // What the config and these options describe.
  DecoderSpec spec() const;
  StepLimits step_limits() const;
  bool is_seq2seq() const;
  // Positions of the cache that the longest sequence takes: of an encoder-decoder the input's, too.
  std::size_t longest_sequence() const;
  // For a model whose layers form these groups.
  CacheShape cache_shape(const CacheGroups& groups) const;

  bool operator==(const EnginePlan&) const = default;
};

// Reads config.json and applies defaults. Leaves out the size of the cache (see runtime/setup/memory_plan),
// and chooses its type by config.json only, without looking at the weights. Rank 0 only. Throws ConfigError
// or CheckpointError.
EnginePlan make_plan(const EngineOptions& options, std::size_t ranks);

// The in-memory type of most weights.
WeightType usual_weight_type(const EnginePlan& plan, const WeightSource& source);

// The checkpoint's files, or generated weights. Throws CheckpointError.
std::unique_ptr<WeightSource> open_weights(const EnginePlan& plan);

}  // namespace tp
