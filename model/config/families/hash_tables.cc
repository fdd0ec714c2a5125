// Hash tables of several families.
#include "model/config/families/common.h"
#include "tp/internal/require.h"

#include <cstddef>

namespace tp::families {
namespace {

// A table takes the first primes that the tables before it have left.
NgramHash engram_hash(const CheckpointConfig& config, std::size_t table) {
  const HashTableConfig& all = config.hash_table;
  const std::size_t heads = (all.ngram_size - 1) * all.heads_per_ngram;
  NgramHash hash{
      .multipliers = numpy_multipliers(all.layers[table], all.ngram_size, all.folded_vocab_size),
      .heads_per_ngram = all.heads_per_ngram,
      .sizes = primes_from(all.vocab_size_base, table * heads, heads),
      .offsets = {},
      .boundary = static_cast<TokenId>(all.boundary.value()),
      .boundary_cuts = false,
      .folded_size = all.folded_vocab_size,
      .folded = all.token_map,
  };
  hash.offsets = offsets_of(hash.sizes);
  return hash;
}

}  // namespace

void set_engram_tables(const CheckpointConfig& config, ModelSpec& spec) {
  const HashTableConfig& all = config.hash_table;
  for (std::size_t table = 0; table < all.layers.size(); ++table) {
    const NgramHash hash = engram_hash(config, table);
    const std::size_t rows = all.rows.empty() ? hash.total() : all.rows[table];
    require<ConfigError>(rows == hash.total(),
                         "engram_num_embeddings must be {} for layer {}, the sum of {} primes from {} "
                         "(engram_vocab_size) on, found {}; check config.json",
                         hash.total(), all.layers[table], hash.heads(), all.vocab_size_base, rows);
    spec.blocks[all.layers[table]].hash_table =
        HashTableSpec{.hash = hash,
                      .row_size = all.row_size,
                      .rows = hash.total(),
                      .streams = config.hyper_connection.mult,
                      .zero_has_sign = true,
                      .norm = {.eps = static_cast<float>(config.rms_norm_eps)}};
  }
}

}  // namespace tp::families
