// The report of `tp-infer inspect`.
#pragma once

#include "launch/plan/described_model.h"
#include "model/config/spec.h"
#include "parallel/shard/shard.h"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace tp {

// One rank's share of the model.
struct RankShare {
  HeadShard heads;
  Range columns;
  Range vocab;
  std::size_t weight_bytes = 0;
  std::size_t cache_bytes = 0;
  std::size_t state_bytes = 0;
  std::size_t workspace_bytes = 0;
  std::size_t adapter_bytes = 0;  // not part of weight_bytes
  std::size_t table_bytes = 0;    // hash tables that stay in the files; not part of weight_bytes
};

// A cache for one sequence.
struct CacheUse {
  std::size_t tokens = 0;
  std::size_t windowed_layers = 0;   // layers that keep only a window
  std::size_t recurrent_layers = 0;  // layers that keep a state
  std::size_t states = 0;            // capacity in states, for max_sequences
  std::size_t blocks = 0;
  // Factor by which the cache would grow if every layer kept all tokens.
  double without_windows = 1.0;
};

struct Parameters {
  std::size_t all = 0;
  std::size_t active = 0;  // parameters that one token needs
};

// Everything that `inspect` shows.
struct Inspection {
  const DescribedModel& model;
  Parameters parameters;
  std::optional<std::string> unusable;  // reason why the tokenizer in the model's file can't be used
  CacheUse cache;
  std::vector<RankShare> shares;

  const CheckpointConfig& config() const { return model.plan().config; }
};

// A table for people, and a JSON object.
std::string inspection_text(const Inspection& found);
std::string inspection_json(const Inspection& found);

}  // namespace tp
