// Facts about the model that an engine has loaded.
#pragma once

#include "tp/engine_options.h"
#include "tp/generation_defaults.h"
#include "tp/memory_types.h"
#include "tp/model_config.h"
#include "tp/model_kind.h"
#include "tp/request.h"
#include "tp/token_id.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tp {

// A draft model or trained drafter (SpeculationOptions::model), or a multi-token prediction layer. Byte
// counts are for rank 0.
struct DraftInfo {
  ModelConfig config;
  std::size_t parameters = 0;
  std::size_t ranks = 1;  // number of ranks that run the draft model
  std::size_t weight_bytes = 0;
  std::size_t cache_bytes = 0;
  std::size_t workspace_bytes = 0;
  bool is_layer = false;  // whether the draft model is a layer of the model's own checkpoint (DraftKind::mtp)
  std::string drafter{};  // the kind of a trained drafter: "EAGLE-3"; empty: none
  // The model's residual streams that the drafter reads: the number of layers before each of them.
  std::vector<std::size_t> captured_places{};
  // Whether this layer or drafter shares the model's embedding and LM head to save memory.
  bool uses_embedding = false;
  bool uses_head = false;
};

// An adapter beside the model.
struct AdapterInfo {
  std::string name;
  // Digits of a hash of everything that determines its results: the bytes of its files, and its scale.
  std::string identity;
  // Whether it replaces tensors of the model (modules_to_save) for all requests, so that all must choose it.
  bool is_exclusive = false;
};

// The loaded model, as seen by this rank.
struct EngineInfo {
  // The options in use. Sizes, `kv_type`, `threads` and a measured `split` are filled in, and `cache_tokens`
  // is the capacity that fits into memory.
  EngineOptions options;
  ModelConfig config;
  ModelKind kind = ModelKind::decoder;
  std::size_t state_size = 0;  // floats in a token's final hidden state
  // The pooling that Engine::sequence_head expects; unset if the model has no sequence head. Rank 0 only.
  std::optional<Pooling> head_pooling;
  std::size_t parameters = 0;            // parameters of the whole model
  WeightType weights = WeightType::f32;  // in-memory type of most weights
  std::string rounded;  // stored types that lose precision in memory, such as "Q4_K as bf16"; usually empty
  // Checkpoint tensors that the model does not use, such as a vision tower. An unused tensor inside a layer
  // is an error instead. Rank 0 only, usually empty.
  std::vector<std::string> unused_tensors;
  // Harmless oddities in the model's files, and unsupported fields of generation_config.json. Rank 0 only,
  // usually empty.
  std::vector<std::string> file_notices;
  std::string generation_notice;
  // Why the model's tokenizer cannot be used; requests must then consist of token ids. Rank 0 only, usually
  // empty.
  std::string tokenizer_notice;
  // Special tokens that the model's files name but its vocabulary lacks, such as "eos_token_id 261". The
  // engine ignores these tokens. Rank 0 only, usually empty.
  std::vector<std::string> unknown_token_ids;
  std::vector<AdapterInfo> adapters;  // in the order of EngineOptions::adapters
  std::size_t weight_bytes = 0;       // on this rank, with adapters
  std::size_t adapter_bytes = 0;      // the part of weight_bytes that adapters have
  std::size_t stored_bytes = 0;       // bytes of all tensors in the checkpoint's files
  std::size_t bytes_used = 0;         // part of stored_bytes that this rank used
  // Bytes that this rank read from storage while loading; see RankReport.
  std::optional<std::uint64_t> bytes_from_storage;
  bool from_packed_cache = false;  // whether weights were loaded from EngineOptions::packed_cache
  // Why the packed cache could not be used or written. Usually empty.
  std::string packed_cache_notice;
  // Why the cache is smaller than requested, or too small for a sequence of maximum length. Rank 0 only,
  // usually empty.
  std::string cache_notice;
  // Why some ranks compute slowly: missing kernels, or processors without AVX2. Usually empty.
  std::string kernels_notice;
  std::size_t cache_bytes = 0;      // bytes of this rank's cache when it is full
  std::size_t states = 0;           // number of recurrent states that fit in memory, including snapshots
  std::size_t state_bytes = 0;      // part of cache_bytes that holds states
  std::size_t workspace_bytes = 0;  // on this rank
  std::chrono::duration<double> load_time{0.0};
  std::vector<TokenId> eos_token_ids;
  SamplingParams default_sampling;  // from generation_config.json
  GenerationDefaults generation;    // rank 0 only
  std::optional<DraftInfo> draft;   // rank 0 only
};

}  // namespace tp
