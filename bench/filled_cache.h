// Decoding at the end of long contexts, in a cache that is filled without computing a prompt.
#pragma once

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

// Random keys and values of some sequences, in bf16.
class FilledCache {
 public:
  static constexpr std::size_t kBlockSize = 32;

  // The layers of `model`, which has the given spec. `slices`: the ranks of a host keep one copy, unless
  // there is only one rank. Collective. Throws ConfigError if ranks cannot share memory.
  FilledCache(Communicator& comm, const ModelSpec& spec, const Model& model, const FilledOptions& options,
              bool slices);

  const KvCache& get() const { return cache_; }
  const std::vector<std::vector<std::int32_t>>& tables() const { return tables_; }
  // The key that was written for a position of a sequence.
  std::vector<float> index_key(std::size_t layer, std::size_t sequence, std::size_t position) const;

 private:
  HostCache host(Communicator& comm, const ModelSpec& spec, const Model& model, bool slices) const;
  std::vector<std::int32_t> table_of(std::size_t sequence, std::size_t owners) const;
  void fill(std::size_t layer);
  void fill_index_keys(std::size_t layer, std::size_t sequence, const kernels::AttentionSpan& span) const;

  FilledOptions options_;
  std::size_t blocks_;  // of a sequence
  KvCache cache_;
  std::vector<std::vector<std::int32_t>> tables_;
};

// A model of synthetic weights in bf16.
class Decoder {
 public:
  Decoder(Communicator& comm, const ModelSpec& spec, const FilledOptions& options);
  // Other weights, in memory as `type`.
  Decoder(Communicator& comm, const ModelSpec& spec, const FilledOptions& options,
          const WeightSource& weights, WeightType type);

  const Model& model() const { return model_; }
  // adapters: [sequences] index + 1 of each sequence's adapter in later steps, 0: none; or empty.
  void use_adapters(std::vector<std::uint32_t> adapters) { adapters_ = std::move(adapters); }
  // Decodes one token of each sequence at the end of its context. Returns the rank's logits. Collective.
  std::vector<float> step(const FilledCache& cache);
  // Seconds of a step: of the clock, or of the processor on the rank that computes longest. Processor time is
  // meaningful if other programs run on the same cores, too. Collective.
  double seconds(const FilledCache& cache);

 private:
  Communicator& comm_;
  FilledOptions options_;
  Model model_;
  Workspace workspace_;
  std::vector<std::uint32_t> adapters_;
};

// Throws CommError unless both have the same bits.
void require_same_bits(const std::vector<float>& one, const std::vector<float>& other);

}  // namespace tp::bench
