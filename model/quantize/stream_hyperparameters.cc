#include "model/quantize/stream_hyperparameters.h"

#include "tp/internal/require.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace tp {
namespace {

// Files have no cutoff as minus infinity.
void write_altup(const CheckpointConfig& config, const ModelSpec& spec, ArchitectureValues& values) {
  if (altup_of(spec) == nullptr) return;
  write_numbers(kAltUpNumbers, config.altup, values);
  values.whole("altup.active_idx", 0);
  std::vector<float> cutoffs;
  for (const BlockSpec& block : spec.blocks) {
    constexpr float kNone = -std::numeric_limits<float>::infinity();
    cutoffs.push_back(std::get<GatedMlpSpec>(block.feed_forward).gate_cutoff.value_or(kNone));
  }
  values.numbers("activation_sparsity_scale", cutoffs);
}

}  // namespace

void write_streams(const CheckpointConfig& config, const ModelSpec& spec, ArchitectureValues& values) {
  write_altup(config, spec, values);
  write_hyper_connections(config.hyper_connection, values);
  if (low_rank_connection_of(spec) != nullptr)
    write_numbers(kLowRankConnectionNumbers, config.low_rank_connection, values);
}

void write_hash_table(const CheckpointConfig& config, const ModelSpec& spec, const std::string& model,
                      ArchitectureValues& values) {
  std::vector<std::int32_t> layers;
  for (std::size_t layer = 0; layer < spec.blocks.size(); ++layer) {
    if (spec.blocks[layer].hash_table) layers.push_back(static_cast<std::int32_t>(layer));
  }
  if (layers.empty()) return;
  require<ConfigError>(layers.size() == 1,
                       "cannot write {} as a GGUF file: expected a hash table in one layer, found {} tables; "
                       "use the checkpoint without converting it",
                       model, layers.size());
  const HashTableSpec& table = *spec.blocks[static_cast<std::size_t>(layers.front())].hash_table;
  write_numbers(kHashTableNumbers, config.hash_table, values);
  values.wholes("ple.layers", layers);
  values.whole("ple.eos_token_id", static_cast<std::size_t>(table.hash.boundary));
  values.whole("embedding_length_per_layer_input", table.row_size);
  values.wholes("ple.layer_multipliers", table.hash.multipliers);
  values.wholes("ple.head_vocab_sizes", table.hash.sizes);
  values.wholes("ple.head_offsets", table.hash.offsets);
}

}  // namespace tp
