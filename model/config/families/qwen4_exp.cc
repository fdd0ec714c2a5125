// Qwen3.8-Flash-Next, the preview of Qwen4: Qwen3.5 with experts, hyper-connections of low rank instead of
// norms, indexers that choose pools of positions, and a hash table.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

constexpr const char* kOnlyTable = "ngram_embedding";

Activation output_gate_of(const CheckpointConfig& config) {
  const std::string& name = config.delta_net.output_gate;
  if (name.empty()) return activation_of(config);
  require<ConfigError>(name == "sigmoid" || name == "silu",
                       "output_gate_type must be sigmoid or silu for {}, found {}; use a model without this "
                       "variant",
                       config.architecture, name);
  return name == "sigmoid" ? Activation::sigmoid : Activation::silu;
}

PooledIndexerSpec indexer_of(const CheckpointConfig& config, const NormSpec& norm) {
  const PooledIndexerConfig& indexer = config.pooled_indexer;
  return {.num_heads = indexer.n_heads,
          .head_dim = indexer.head_dim,
          .pool = indexer.compress_ratio,
          .top_k = indexer.budget / indexer.compress_ratio,
          .norm = norm};
}

TokenId boundary_of(const CheckpointConfig& config) {
  if (config.hash_table.boundary) return static_cast<TokenId>(*config.hash_table.boundary);
  require<ConfigError>(!config.eos_token_ids.empty(),
                       "eos_token_id must be set for {} with ple_layer_ids, found none; check config.json",
                       config.architecture);
  return config.eos_token_ids.front();
}

// Each table goes on with the primes of the table before.
HashTableSpec hash_table_of(const CheckpointConfig& config, std::size_t table, const NormSpec& norm) {
  const HashTableConfig& all = config.hash_table;
  const std::size_t heads = (all.ngram_size - 1) * all.heads_per_ngram;
  NgramHash hash{.multipliers = all.multipliers,
                 .heads_per_ngram = all.heads_per_ngram,
                 .sizes = all.sizes,
                 .offsets = {},
                 .boundary = boundary_of(config)};
  require<ConfigError>(
      (hash.multipliers.empty() && hash.sizes.empty()) ||
          (hash.multipliers.size() == all.ngram_size && hash.sizes.size() == heads && all.layers.size() == 1),
      "constants of hashes must be those of one table, {} multipliers and {} sizes, found {} tables, {} and "
      "{}; use the original checkpoint",
      all.ngram_size, heads, all.layers.size(), hash.multipliers.size(), hash.sizes.size());
  if (hash.multipliers.empty()) {
    hash.multipliers = splitmix_multipliers(all.seed, table, all.ngram_size, config.vocab_size);
    hash.sizes = primes_from(all.vocab_size_base, table * heads, heads);
  }
  hash.offsets = offsets_of(hash.sizes);
  const std::size_t rows = (hash.total() + all.rows_multiple - 1) / all.rows_multiple * all.rows_multiple;
  require<ConfigError>(
      rows % all.shards == 0,
      "split_ngram_parts must divide the {} rows of a hash table, found {}; check config.json", rows,
      all.shards);
  return {.hash = hash,
          .row_size = all.embed_dim / heads,
          .rows = rows,
          .shards = all.shards,
          .streams = config.low_rank_connection.count,
          .conv_kernel = all.conv_kernel,
          .conv_dilation = all.ngram_size,
          .norm = norm};
}

ModelSpec qwen4_exp_spec(const CheckpointConfig& config) {
  ModelSpec spec = qwen3_next_spec(config);
  const NormSpec norm = spec.final_norm.value();
  spec.final_norm = std::nullopt;
  for (BlockSpec& block : spec.blocks) {
    block.input_norm = block.pre_feed_forward_norm = std::nullopt;
    block.low_rank_connection = {
        .streams = config.low_rank_connection.count, .rank = config.low_rank_connection.rank, .norm = norm};
    if (auto* const attention = std::get_if<AttentionSpec>(&block.attention))
      attention->pooled_indexer = indexer_of(config, norm);
    else
      std::get<GatedDeltaNetSpec>(block.attention).gate = output_gate_of(config);
  }
  const std::vector<std::size_t>& tables = config.hash_table.layers;
  for (std::size_t table = 0; table < tables.size(); ++table)
    spec.blocks[tables[table]].hash_table = hash_table_of(config, table, norm);
  return spec;
}

BlockNames qwen4_exp_block(const std::string& prefix) {
  BlockNames names = qwen3_next_block(prefix);
  names.input_norm.clear();
  names.pre_feed_forward_norm.clear();
  names.next_token = {};
  names.attention_low_rank = usual_names(kAttentionLowRankTensors, prefix + "attn_hyper_connection.");
  names.feed_forward_low_rank = usual_names(kFeedForwardLowRankTensors, prefix + "mlp_hyper_connection.");
  names.pooled_indexer = usual_names(kPooledIndexerTensors, prefix + "self_attn.indexer.");
  names.hash_table = usual_names(kHashTableTensors, prefix + "ple.");
  names.hash_table.table = prefix + "ple.ple_embedding.ngram_embedding";
  names.hash_table.shards = names.hash_table.table + ".shard_";
  names.hash_table.only_table = kOnlyTable;
  names.hash_table.constants = prefix + "ple.ple_embedding.";
  return names;
}

// One table, whose number of rows is that of its tensor.
nlohmann::json hash_table_in_gguf(const ModelMetadata& model) {
  const GgufFiles::Entry* const table = model.files().find("per_layer_token_embd.weight");
  const std::vector<std::uint64_t> sizes = model.exact_wholes("ple.head_vocab_sizes");
  require<ConfigError>(table != nullptr && table->tensor.shape.size() == 2 &&
                           model.exact_wholes("ple.head_offsets") == offsets_of(sizes),
                       "ple.head_offsets must be the sums of ple.head_vocab_sizes, and the file must have a "
                       "matrix per_layer_token_embd; convert the model again");
  nlohmann::json config = numbers_in_gguf(kHashTableNumbers, model);
  for (const std::uint64_t layer : model.wholes("ple.layers")) config["ple_layer_ids"].push_back(layer + 1);
  config.update({{"ple_embed_dim", sizes.size() * model.whole("embedding_length_per_layer_input")},
                 {"ple_layer_multipliers", model.exact_wholes("ple.layer_multipliers")},
                 {"ple_head_vocab_sizes", sizes},
                 {"ple_eos_token_id", model.whole("ple.eos_token_id")},
                 {"make_ngram_vocab_size_divisible_by", table->tensor.shape.front()},
                 {"split_ngram_parts", 1}});
  return config;
}

nlohmann::json qwen4_exp_config(const ModelMetadata& model) {
  nlohmann::json config = qwen3_next_config(model);
  config.update(numbers_in_gguf(kLowRankConnectionNumbers, model));
  config.update(numbers_in_gguf(kPooledIndexerNumbers, model));
  config["indexer_compress_ratio"] = std::ranges::max(model.wholes("attention.compress_ratios"));
  config["output_gate_type"] = "sigmoid";  // as in the published model
  if (model.has("ple.layers")) config.update(hash_table_in_gguf(model));
  return config;
}

}  // namespace

Family qwen4_exp() {
  Family family = derived(qwen3_5_moe(), "Qwen4ExpForConditionalGeneration", qwen4_exp_spec, qwen4_exp_block);
  family.aliases = {"Qwen4ExpForCausalLM"};
  family.make_next_token_spec = nullptr;
  family.layer_types = {{"deepseek_sparse_attention", "full_attention"},
                        {"hybrid_indexed", "full_attention"}};
  family.names.final_norm.clear();
  family.names.last_low_rank = usual_names(kLastLowRankTensors, "hyper_connection_mixer.");
  for (const char* const buffer : {".layer_multipliers", ".ngram_heads_offsets", ".ngram_heads_vocab_sizes"})
    family.names.buffers.emplace_back(buffer);
  family.names.hash_table = kOnlyTable;
  family.gguf = {.architecture = "qwen4exp", .config = qwen4_exp_config};
  family.fixed_fields = {{"indexer_kv_heads", "1"}};
  family.defaults.max_position_embeddings = 32768;
  family.defaults.low_rank_connection = {.count = 4, .rank = 320};
  family.defaults.pooled_indexer = {.n_heads = 4, .head_dim = 128, .budget = 2048, .compress_ratio = 4};
  family.defaults.hash_table = {.conv_kernel = 4,
                                .ngram_size = 3,
                                .heads_per_ngram = 8,
                                .vocab_size_base = 20'000'000,
                                .rows_multiple = 128,
                                .shards = 512,
                                .seed = 1234};
  return family;
}

}  // namespace tp::families
