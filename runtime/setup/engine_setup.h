// The configuration that all ranks of an engine agree on.
#pragma once

#include "model/config/config.h"
#include "model/layers/model.h"
#include "model/memory/cache_slices.h"
#include "model/weights/source/weight_source.h"
#include "runtime/cache/cache_shape.h"
#include "tp/engine.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tp {

// All facts that follow from rank 0's options and files. Equal on every rank, except for the options that
// each rank sets for itself.
struct EnginePlan {
  EngineOptions options;  // with the values that replace defaults
  CheckpointConfig config;
  std::uint64_t cache_blocks = 0;
  std::uint64_t ranks = 1;      // ranks per stage
  bool overlaps = false;        // steps may be computed as two half-batches
  bool divides_tables = false;  // see HashTableSpec::is_divided
  bool next_token = false;      // plans the multi-token prediction layer instead of the model
  // The plan of the model for which a trained drafter drafts tokens, which each rank sets for itself; null:
  // this is not the plan of a trained drafter.
  std::shared_ptr<const EnginePlan> target{};
  // [stages * ranks] numbers of the hosts on which the ranks of each stage run, if the ranks of a host keep
  // one copy of the cache; else empty.
  std::vector<std::uint64_t> host_of{};
  // Number of equal parts of the cache, each of which has one owner per KV head; if ranks own unequal parts,
  // most of each part. See CacheShape.
  std::uint64_t cache_owners = 1;
  std::string not_shared_because{};  // why the ranks of a host cannot keep one copy, if it would save memory

  // The type to which weights are converted; none: every weight's stored type.
  std::optional<WeightType> weights() const;
  // The quantized type in which synthetic weights are generated, if any.
  std::optional<WeightType> synthetic_blocks() const;
  KvType kv_type() const { return options.kv_type.value_or(KvType::f32); }
  // Whether only the first ranks exist, see EngineOptions::pretend_ranks.
  bool pretends() const { return options.pretend_ranks != 0; }
  // The rank's share of the model. Refers to this plan.
  TpRank tp(std::size_t rank) const { return {rank, ranks, options.split}; }
  // The model that config and options describe.
  ModelSpec spec() const;
  StepLimits step_limits() const;
  bool is_seq2seq() const;
  // Cache positions of the longest sequence, including an encoder-decoder's input.
  std::size_t longest_sequence() const;
  // The groups of the model's layers.
  CacheGroups cache_groups(const ModelSpec& spec) const;
  // The cache of a model whose layers form these groups.
  CacheShape cache_shape(const CacheGroups& groups) const;
  // The ranks of the stage that keep one copy of the cache with rank `tp`. If `tp` counts other ranks than
  // this plan, as many are assumed on each host as on the plan's largest host.
  std::vector<std::size_t> cache_ranks(std::size_t stage, TpRank tp) const;
  // The rank's part of a cache of this many blocks.
  CacheSlices cache_slices(const ModelSpec& spec, Stage stage, TpRank tp, std::size_t blocks) const;

  bool operator==(const EnginePlan&) const = default;
};

// Reads config.json and applies defaults. Does not set the size of the cache (see runtime/setup/memory_plan),
// and chooses the cache's type by config.json, without looking at the weights. Rank 0 only. Throws
// ConfigError or CheckpointError.
EnginePlan make_plan(const EngineOptions& options, std::size_t ranks);

// Lets the ranks of a host keep one copy of the cache, if the plan's options say so and it saves memory.
// `host_of`: see EnginePlan.
void share_caches(EnginePlan& plan, std::vector<std::uint64_t> host_of);

// The in-memory type of most weights.
WeightType usual_weight_type(const EnginePlan& plan, const WeightSource& source);

// Opens the plan's adapters beside these weights, if there are any. An adapter's own tensors replace those of
// the weights. Throws CheckpointError, and ConfigError for adapters that the program does not support.
std::unique_ptr<WeightSource> with_adapters(const EnginePlan& plan, std::unique_ptr<WeightSource> weights);

// Opens the checkpoint's files and the adapters, or creates generated weights. Throws like with_adapters.
std::unique_ptr<WeightSource> open_weights(const EnginePlan& plan);

}  // namespace tp
