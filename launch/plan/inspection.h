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

<<<<<<< HEAD
// One rank's share of the model.
=======
// A rank's part of the model and its memory.
>>>>>>> 13550490 (Comments of new code put the subject first; a helper's name is unique in its target)
struct RankShare {
  HeadShard heads;
  Range columns;
  Range vocab;
  std::size_t weight_bytes = 0;
  std::size_t cache_bytes = 0;
  std::size_t state_bytes = 0;
  std::size_t workspace_bytes = 0;
};

// A cache for one sequence.
struct CacheUse {
  std::size_t tokens = 0;
<<<<<<< HEAD
  std::size_t windowed_layers = 0;   // layers that keep only a window
  std::size_t recurrent_layers = 0;  // layers that keep a state in place of keys and values
  std::size_t states = 0;            // capacity in states, for max_sequences
  std::size_t blocks = 0;
  // How many times as many bytes the cache would need if every layer kept all tokens.
=======
  std::size_t windowed_layers = 0;   // layers that keep no more than a window
  std::size_t recurrent_layers = 0;  // layers that keep a state in place of keys and values
  std::size_t states = 0;            // slots for states, with max_sequences
  std::size_t blocks = 0;
  // Its size if every layer kept all tokens, as a multiple of its actual size.
>>>>>>> 13550490 (Comments of new code put the subject first; a helper's name is unique in its target)
  double without_windows = 1.0;
};

struct Parameters {
  std::size_t all = 0;
  std::size_t active = 0;  // parameters that one token needs
};

<<<<<<< HEAD
// Everything that `inspect` shows.
=======
// The contents of the report.
>>>>>>> 13550490 (Comments of new code put the subject first; a helper's name is unique in its target)
struct Inspection {
  const DescribedModel& model;
  Parameters parameters;
  std::optional<std::string> unusable;  // why the tokenizer in the model's file cannot be used
  CacheUse cache;
  std::vector<RankShare> shares;

  const ModelConfig& config() const { return model.plan().config; }
};

// A table for people, and a JSON object.
std::string inspection_text(const Inspection& found);
std::string inspection_json(const Inspection& found);

}  // namespace tp
