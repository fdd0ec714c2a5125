// The leader's view of the engine, the model and the cache.
#pragma once

#include "model/config/diffusion_spec.h"
#include "runtime/cache/cache_shape.h"
#include "tp/engine_info.h"
#include "tp/engine_options.h"
#include "tp/generation_defaults.h"
#include "tp/model_kind.h"
#include "tp/token_id.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace tp {

struct LeaderOptions {
  EngineOptions engine{};
  std::size_t vocab_size = 0;
  std::vector<TokenId> eos_token_ids{};
  GenerationDefaults generation{};
  ModelKind kind = ModelKind::decoder;
  bool bidirectional = false;                // all prompts use bidirectional attention
  bool recomputes = false;                   // the whole sequence is recomputed for each generated token
  bool has_indexers = false;                 // layers choose the earlier positions that a token sees
  std::size_t token_types = 0;               // number of token types; 0: the model has none
  bool has_global_tokens = false;            // prompts may have global tokens
  std::optional<DiffusionSpec> diffusion{};  // set for diffusion language models
  std::size_t cache_blocks = 0;
  CacheShape cache{};
  std::size_t step_tokens = 512;        // maximum tokens per step, across all sequences
  bool generates = true;                // whether sequences can generate token by token
  std::vector<AdapterInfo> adapters{};  // in the order of EngineOptions::adapters

  std::string model() const { return engine.model.string(); }
  // Maximum length of an indivisible sequence, in tokens. The step that computes such a sequence must also
  // have room for one token of every generating sequence.
  std::size_t indivisible_tokens() const {
    if (!generates) return engine.prefill_chunk;
    const std::size_t others = std::min(engine.max_sequences, step_tokens) - 1;
    return std::min(engine.prefill_chunk, step_tokens - others);
  }
};

}  // namespace tp
