// Hash tables of several families.
#include "model/config/families/common.h"
#include "tp/internal/require.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tp::families {
namespace {

std::size_t heads_of(const HashTableConfig& all) { return (all.ngram_size - 1) * all.heads_per_ngram; }

// The constants of one table, with `count` of them for each.
std::vector<std::uint64_t> constants_of(const std::vector<std::uint64_t>& all, std::size_t table,
                                        std::size_t count) {
  const auto first = all.begin() + static_cast<std::ptrdiff_t>(table * count);
  return {first, first + static_cast<std::ptrdiff_t>(count)};
}

void require_constants(const HashTableConfig& all) {
  const std::size_t multipliers = all.layers.size() * all.ngram_size;
  const std::size_t sizes = all.layers.size() * heads_of(all);
  require<ConfigError>((all.multipliers.empty() && all.sizes.empty()) ||
                           (all.multipliers.size() == multipliers && all.sizes.size() == sizes),
                       "constants of hashes must be those of {} tables, {} multipliers and {} primes, found "
                       "{} and {}; use the original checkpoint",
                       all.layers.size(), multipliers, sizes, all.multipliers.size(), all.sizes.size());
}

// Without stored constants, a table takes the first primes that the tables before it have left.
NgramHash engram_hash(const CheckpointConfig& config, std::size_t table) {
  const HashTableConfig& all = config.hash_table;
  const std::size_t heads = heads_of(all);
  const bool is_stored = !all.sizes.empty();
  NgramHash hash{
      .multipliers = is_stored ? constants_of(all.multipliers, table, all.ngram_size)
                               : numpy_multipliers(all.layers[table], all.ngram_size, all.folded_vocab_size),
      .heads_per_ngram = all.heads_per_ngram,
      .sizes = is_stored ? constants_of(all.sizes, table, heads)
                         : primes_from(all.vocab_size_base, table * heads, heads),
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
  require_constants(all);
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
