// Decoding at the end of long contexts, in a cache that is filled without computing a prompt.
#pragma once

#include "model/config/config.h"
#include "model/layers/model.h"
#include "model/memory/kv_cache.h"
#include "model/memory/workspace.h"
#include "model/weights/source/weight_source.h"
#include "tp/communicator.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace CLI {
class App;
}

namespace tp::bench {

struct FilledOptions {
  std::size_t context = 32768;  // tokens of each sequence in the cache
  std::size_t sequences = 1;    // sequences that are decoded together
  std::size_t pairs = 12;
  std::size_t steps = 4;              // decoded tokens that are timed together
  bool cpu_time = false;              // processor time instead of the clock's
  std::size_t index_keys = SIZE_MAX;  // positions after which index keys repeat
};
void add_options(CLI::App& app, FilledOptions& options);

// Random keys and values of several sequences, in bf16.
class FilledCache {
 public:
  static constexpr std::size_t kBlockSize = 32;

  // The layers of `model`, which has the given spec. `slices`: the ranks of a host keep one copy, unless
  // there is only one rank. Collective. Throws ConfigError if ranks cannot share memory.
  FilledCache(Communicator& comm, const ModelSpec& spec, const Model& model, const FilledOptions& options,
              bool slices);

  const KvCache& get() const { return cache_; }
  const std::vector<std::vector<std::int32_t>>& tables() const { return tables_; }
  // Returns the index key at a position of a sequence.
  std::vector<float> index_key(std::size_t layer, std::size_t sequence, std::size_t position) const;

 private:
  HostCache host(Communicator& comm, const ModelSpec& spec, const Model& model, bool slices) const;
  std::vector<std::int32_t> table_of(std::size_t sequence, std::size_t owners) const;
  void fill(std::size_t layer);
  void fill_index_keys(std::size_t layer, std::size_t sequence, const kernels::AttentionSpan& span) const;

  FilledOptions options_;
  std::size_t blocks_;  // blocks of one sequence
  KvCache cache_;
  std::vector<std::vector<std::int32_t>> tables_;
};

// Runs a step. Returns the rank's logits. Collective.
std::vector<float> logits_of(Model& model, Communicator& comm, const Batch& batch, const FilledCache& cache,
                             Workspace& workspace);

// A config of four layers with the sizes of DeepSeek's latents if `latents`, and with hardly any weights
// besides attention.
CheckpointConfig attention_config(const char* architecture, const FilledOptions& options, bool latents);

// A model with synthetic weights in bf16.
class Decoder {
 public:
  Decoder(Communicator& comm, const ModelSpec& spec, const FilledOptions& options);
  // Creates a model with other weights, in memory as `type`.
  Decoder(Communicator& comm, const ModelSpec& spec, const FilledOptions& options,
          const WeightSource& weights, WeightType type);

  const Model& model() const { return model_; }
  // adapters: [sequences] 1 + index of each sequence's adapter in later steps; 0 or an empty vector: none.
  void use_adapters(std::vector<std::uint32_t> adapters) { adapters_ = std::move(adapters); }
  // Decodes one token of each sequence at the end of its context. Returns the rank's logits. Collective.
  std::vector<float> step(const FilledCache& cache);
  // Returns the seconds of a step: wall-clock time, or processor time of the rank that computes longest.
  // Processor time is useful if other programs run on the same cores. Collective.
  double seconds(const FilledCache& cache);

 private:
  Communicator& comm_;
  FilledOptions options_;
  Model model_;
  Workspace workspace_;
  std::vector<std::uint32_t> adapters_;
};

// Throws CommError unless all bits are equal.
void require_same_bits(const std::vector<float>& one, const std::vector<float>& other);

}  // namespace tp::bench
