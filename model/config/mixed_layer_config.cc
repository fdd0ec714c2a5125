#include "model/config/layer_config.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace tp {
namespace {

// Newer files list the sizes of each layer that differs from head_dim and num_key_value_heads.
void read_listed_sizes(const JsonNode& list, const std::string& where, CheckpointConfig& config) {
  bool is_first = true;
  for (std::size_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::optional<JsonNode> sizes = list.find(fmt::to_string(layer));
    const std::size_t head_dim = sizes ? sizes->size_or("head_dim", config.head_dim) : config.head_dim;
    const std::size_t kv_heads = sizes ? sizes->size_or("num_key_value_heads", config.num_key_value_heads)
                                       : config.num_key_value_heads;
    const bool is_global = !config.layer_types.empty() && config.layer_types[layer] == "full_attention";
    if (is_global && is_first) {
      config.global_head_dim = head_dim;
      config.num_global_key_value_heads = kv_heads;
      is_first = false;
    }
    const std::size_t expected_dim = is_global ? config.global_head_dim : config.head_dim;
    const std::size_t expected_heads =
        is_global ? config.num_global_key_value_heads : config.num_key_value_heads;
    require<ConfigError>(head_dim == expected_dim && kv_heads == expected_heads,
                         "{}: per_layer_config must give layers of the same type the same sizes, expected "
                         "head_dim {} and num_key_value_heads {} for layer {}, found {} and {}; use another "
                         "model",
                         where, expected_dim, expected_heads, layer, head_dim, kv_heads);
  }
}

std::string gating_of(const JsonNode& gating) {
  if (!gating.is_string()) return gating.boolean() ? "per-head" : "";
  std::string name = gating.string();
  std::ranges::replace(name, '_', '-');
  if (name != "per-head" && name != "per-element") gating.fail_type("true, per-head or per-element");
  return name;
}

// Laguna's gates: for all layers, or in newer files a list, which must be the same for all.
void read_gating(const JsonNode& fields, CheckpointConfig& config) {
  if (const std::optional<JsonNode> gating = fields.find("gating")) config.gating = gating_of(*gating);
  const std::vector<std::string> types = fields.list_or_empty("gating_types", gating_of);
  if (types.empty()) return;
  config.gating = types.front();
  if (std::ranges::any_of(types, [&](const std::string& type) { return type != types.front(); }))
    fields.at("gating_types").fail_type("the same gates in all layers; use a model without this variant");
}

// Gemma 3n's MLPs: their widths, of which intermediate_size becomes the largest one, and the parts of their
// gates that become 0.
void read_mlps_of_layers(const JsonNode& fields, const std::string& where, CheckpointConfig& config) {
  if (config.altup.num_inputs == 0) return;  // a family without AltUp has neither
  const std::size_t layers = config.num_hidden_layers;
  if (const auto widths = fields.find("intermediate_size"); widths && widths->is_array()) {
    config.intermediate_sizes = fields.list_or_empty("intermediate_size", &JsonNode::size);
    require<ConfigError>(config.intermediate_sizes.size() == layers,
                         "{}: intermediate_size must be one width or a width for each layer, expected {} "
                         "(num_hidden_layers), found {}; check config.json",
                         where, layers, config.intermediate_sizes.size());
    config.intermediate_size = std::ranges::max(config.intermediate_sizes);
  }
  read_numbers(kAltUpNumbers, fields, config.altup);
  read_numbers(kLaurelNumbers, fields, config.laurel);
  constexpr std::size_t kSparseLayers = 10;  // the number in published models
  std::vector<double>& parts = config.activation_sparsity_pattern;
  parts = fields.list_or_empty("activation_sparsity_pattern", &JsonNode::number);
  if (!fields.has("activation_sparsity_pattern")) {
    parts.assign(layers, 0.0);
    if (layers > kSparseLayers) std::fill_n(parts.begin(), kSparseLayers, 0.95);
  }
  require<ConfigError>(parts.size() == layers &&
                           std::ranges::all_of(parts, [](double part) { return part >= 0.0 && part < 1.0; }),
                       "{}: activation_sparsity_pattern must have a number of at least 0 and less than 1 for "
                       "each of {} layers, "
                       "found {} numbers; check config.json",
                       where, layers, parts.size());
}

void read_hyper_connections(const JsonNode& fields, const std::string& where, CheckpointConfig& config) {
  HyperConnectionConfig& connection = config.hyper_connection;
  if (connection.mult == 0) return;
  read_numbers(kHyperConnectionNumbers, fields, connection);
  fields.update({"hc_eps"}, connection.eps);
  fields.update({"hc_magnitude"}, connection.magnitude);
  constexpr std::size_t kMaxSteps = 1000;
  if (connection.sinkhorn_iters != 0) fields.update_size({"hc_sinkhorn_iters"}, connection.sinkhorn_iters);
  require<ConfigError>(connection.sinkhorn_iters <= kMaxSteps,
                       "{}: hc_sinkhorn_iters must be at most {}, found {}; check config.json", where,
                       kMaxSteps, connection.sinkhorn_iters);
  require<ConfigError>(connection.eps >= 0.0 && connection.eps < 1.0 && connection.magnitude > 0.0 &&
                           connection.magnitude < 1e6,
                       "{}: hc_eps must be at least 0 and less than 1, and hc_magnitude above 0 and less "
                       "than 1000000, found {} and {}; check config.json",
                       where, connection.eps, connection.magnitude);
}

std::uint64_t constant_of_hash(const JsonNode& node) {
  constexpr std::int64_t kLimit = std::int64_t{1} << 62;
  return static_cast<std::uint64_t>(node.integer_below(kLimit));
}

constexpr std::size_t kMaxVocabSize = std::size_t{1} << 24;  // ids are kept as floats

// Constants of hashes, which GGUF files have.
void read_constants(const JsonNode& fields, const char* multipliers, const char* sizes,
                    const std::string& where, HashTableConfig& table) {
  constexpr std::uint64_t kMaxRows = std::uint64_t{1} << 32;  // per head
  table.multipliers = fields.list_or_empty(multipliers, constant_of_hash);
  table.sizes = fields.list_or_empty(sizes, constant_of_hash);
  require<ConfigError>(
      std::ranges::all_of(table.sizes, [](std::uint64_t size) { return size > 0 && size < kMaxRows; }),
      "{}: {} must be above 0 and less than {}, found {}; convert the model again", where, sizes, kMaxRows,
      fmt::join(table.sizes, ", "));
}

// Layers are counted from 1.
void read_hash_tables(const JsonNode& fields, const std::string& where, CheckpointConfig& config) {
  constexpr std::size_t kMax = 65536;
  HashTableConfig& table = config.hash_table;
  if (table.conv_kernel == 0) return;  // a family without hash tables
  table.embed_dim = config.hidden_size;
  read_numbers(kHashTableNumbers, fields, table);
  fields.update_count({"seed"}, table.seed);
  read_constants(fields, "ple_layer_multipliers", "ple_head_vocab_sizes", where, table);
  if (fields.has("ple_eos_token_id")) table.boundary = fields.at("ple_eos_token_id").count();
  std::set<std::size_t> layers;
  for (const std::size_t layer : fields.list_or_empty("ple_layer_ids", &JsonNode::size)) {
    require<ConfigError>(layer <= config.num_hidden_layers,
                         "{}: ple_layer_ids must be layers 1 to {} (num_hidden_layers), found {}; check "
                         "config.json",
                         where, config.num_hidden_layers, layer);
    layers.insert(layer - 1);
  }
  table.layers.assign(layers.begin(), layers.end());
  require<ConfigError>(table.ngram_size >= 2 && table.ngram_size <= 64 && table.heads_per_ngram <= kMax &&
                           table.embed_dim % ((table.ngram_size - 1) * table.heads_per_ngram) == 0,
                       "{}: ngram_size must be 2 to 64, and ple_embed_dim a multiple of (ngram_size - 1) x "
                       "heads_per_ngram, found {}, {} and {}; check config.json",
                       where, table.ngram_size, table.embed_dim, table.heads_per_ngram);
  require<ConfigError>(table.conv_kernel <= 256 && table.shards <= kMax,
                       "{}: ple_conv_kernel_size must be at most 256 and split_ngram_parts at most {}, found "
                       "{} and {}; check config.json",
                       where, kMax, table.conv_kernel, table.shards);
  require<ConfigError>(config.vocab_size < kMaxVocabSize,
                       "{}: vocab_size must be less than 16777216 with hash tables, found {}; use another "
                       "model",
                       where, config.vocab_size);
}

// Layers are counted from 0, and their order is that of the tables' constants.
void read_layers_of_engram(const JsonNode& fields, const std::string& where, CheckpointConfig& config) {
  HashTableConfig& table = config.hash_table;
  table.layers = fields.list_or_empty("engram_layer_ids", &JsonNode::count);
  table.rows = fields.list_or_empty("engram_num_embeddings", &JsonNode::size);
  const std::set<std::size_t> layers(table.layers.begin(), table.layers.end());
  require<ConfigError>(
      layers.size() == table.layers.size() && (layers.empty() || *layers.rbegin() < config.num_hidden_layers),
      "{}: engram_layer_ids must be different layers below {} (num_hidden_layers), found {}; check "
      "config.json",
      where, config.num_hidden_layers, fmt::join(table.layers, ", "));
  require<ConfigError>(table.rows.empty() || table.rows.size() == table.layers.size(),
                       "{}: engram_num_embeddings must have a number for each of the {} layers in "
                       "engram_layer_ids, found {}; check config.json",
                       where, table.layers.size(), table.rows.size());
}

// The token for padding has two names in published files.
void read_padding_of_engram(const JsonNode& fields, const std::string& where, CheckpointConfig& config) {
  HashTableConfig& table = config.hash_table;
  const std::size_t pad = fields.count_or("engram_pad_token_id", table.boundary.value_or(0));
  table.boundary = fields.count_or("engram_pad_id", pad);
  require<ConfigError>(!fields.has("engram_pad_token_id") || table.boundary == pad,
                       "{}: engram_pad_id must be engram_pad_token_id, {}, found {}; leave one of them out",
                       where, pad, *table.boundary);
  const std::size_t tokens = table.token_map.empty() ? config.vocab_size : table.token_map.size();
  require<ConfigError>(pad < tokens,
                       "{}: engram_pad_token_id must be the id of one of the {} tokens, found {}; check "
                       "config.json",
                       where, tokens, pad);
}

// DeepSeek's tables.
void read_engram(const JsonNode& fields, const std::string& where, CheckpointConfig& config) {
  constexpr std::size_t kMaxHeads = 65536;
  HashTableConfig& table = config.hash_table;
  if (table.folded_vocab_size == 0) return;  // a family without such tables
  read_numbers(kEngramNumbers, fields, table);
  require<ConfigError>(
      table.ngram_size >= 2 && table.ngram_size <= 64 &&
          table.heads_per_ngram <= kMaxHeads / table.ngram_size && table.row_size <= kMaxHeads,
      "{}: engram_max_ngram_size must be 2 to 64, engram_max_ngram_size x engram_n_heads at "
      "most {}, and engram_head_dim at most {}, found {}, {} heads and {}; check config.json",
      where, kMaxHeads, kMaxHeads, table.ngram_size, table.heads_per_ngram, table.row_size);
  table.embed_dim = (table.ngram_size - 1) * table.heads_per_ngram * table.row_size;
  require<ConfigError>(config.vocab_size < kMaxVocabSize && table.folded_vocab_size < kMaxVocabSize,
                       "{}: vocab_size and engram_compressed_vocab_size must be less than {}, found {} and "
                       "{}; use another model",
                       where, kMaxVocabSize, config.vocab_size, table.folded_vocab_size);
  read_layers_of_engram(fields, where, config);
  const auto folded_id = [](const JsonNode& id) {
    return static_cast<TokenId>(id.integer_below(std::int64_t{kMaxVocabSize}));
  };
  table.token_map = fields.list_or_empty(kTokenMap, folded_id);
  const auto largest = std::ranges::max_element(table.token_map);
  const std::size_t found = largest == table.token_map.end() ? 0 : static_cast<std::size_t>(*largest) + 1;
  require<ConfigError>(
      table.token_map.empty() || found == table.folded_vocab_size,
      "{}: engram_compressed_vocab_size must be {}, the number of tokens in tokenizer.json "
      "that differ in more than case, accents and white space, found {}; use config.json and "
      "tokenizer.json of the same checkpoint",
      where, found, table.folded_vocab_size);
  read_padding_of_engram(fields, where, config);
  read_constants(fields, "engram_multipliers", "engram_primes", where, table);
}

// The streams are as many as the sums that layers begin, and one more.
void read_attention_residuals(const JsonNode& fields, const std::string& where, CheckpointConfig& config) {
  constexpr std::size_t kMaxSums = 256;
  std::size_t& size = config.attn_res_block_size;
  if (size == 0) return;
  fields.update_size({"attn_res_block_size"}, size);
  fields.update({"attn_res_norms"}, config.attn_res_norms);
  require<ConfigError>((config.num_hidden_layers - 1) / size < kMaxSums,
                       "{}: attn_res_block_size must let at most {} of the {} layers begin a sum, found {}; "
                       "check config.json",
                       where, kMaxSums, config.num_hidden_layers, size);
}

// Laguna's query heads, and MiMo's KV heads, values and sinks.
void read_heads_of_layers(const JsonNode& fields, const std::string& where, CheckpointConfig& config) {
  std::vector<std::size_t>& heads = config.num_attention_heads_per_layer;
  heads = fields.list_or_empty("num_attention_heads_per_layer", &JsonNode::size);
  // Step's layers with a window, which differ in nothing else.
  if (const std::optional<JsonNode> other = fields.find("attention_other_setting");
      other && !config.layer_types.empty()) {
    require<ConfigError>(
        other->count_or("num_attention_groups", config.num_key_value_heads) == config.num_key_value_heads &&
            other->count_or("head_dim", config.head_dim) == config.head_dim,
        "{}: attention_other_setting must have num_attention_groups {} and head_dim {}, as the other layers; "
        "use a model "
        "without this variant",
        where, config.num_key_value_heads, config.head_dim);
    for (const std::string& type : config.layer_types)
      heads.push_back(type == "sliding_attention" ? other->at("num_attention_heads").size()
                                                  : config.num_attention_heads);
  }
  constexpr std::size_t kMaxHeads = 65536;
  const auto is_possible = [&](std::size_t count) {
    return count <= kMaxHeads && count % config.num_key_value_heads == 0;
  };
  require<ConfigError>(
      heads.empty() || (heads.size() == config.num_hidden_layers && std::ranges::all_of(heads, is_possible)),
      "{}: num_attention_heads_per_layer must have a multiple of num_key_value_heads, {}, for each of {} "
      "layers, found "
      "{} numbers; check config.json",
      where, config.num_key_value_heads, config.num_hidden_layers, heads.size());
  if (config.v_head_dim == 0) return;  // a family whose values are as large as keys
  fields.update_size({"v_head_dim"}, config.v_head_dim);
  fields.update_size({"swa_num_key_value_heads"}, config.swa_num_key_value_heads);
  fields.update({"attention_value_scale"}, config.attention_value_scale);
  fields.update({"add_swa_attention_sink_bias"}, config.add_swa_attention_sink_bias);
  fields.update({"add_full_attention_sink_bias"}, config.add_full_attention_sink_bias);
  require<ConfigError>(
      config.v_head_dim <= kMaxHeads && (config.swa_num_key_value_heads == 0 ||
                                         config.num_attention_heads % config.swa_num_key_value_heads == 0),
      "{}: v_head_dim must be at most {}, and num_attention_heads, {}, a multiple of "
      "swa_num_key_value_heads, found {} "
      "and {}; check config.json",
      where, kMaxHeads, config.num_attention_heads, config.v_head_dim, config.swa_num_key_value_heads);
  for (const auto& [own, of_all] :
       {std::pair("swa_num_attention_heads", config.num_attention_heads),
        std::pair("swa_head_dim", config.head_dim), std::pair("swa_v_head_dim", config.v_head_dim)}) {
    require<ConfigError>(
        fields.count_or(own, of_all) == of_all,
        "{}: {} must be {}, as in layers without a window, found {}; use a model without this variant", where,
        own, of_all, fields.count_or(own, of_all));
  }
}

}  // namespace

void read_mixed_layers(const JsonNode& fields, const std::string& where, CheckpointConfig& config) {
  fields.update({"attention_k_eq_v"}, config.attention_k_eq_v);
  fields.update_size({"global_head_dim"}, config.global_head_dim);
  if (config.attention_k_eq_v)
    fields.update_size({"num_global_key_value_heads"}, config.num_global_key_value_heads);
  if (const auto list = fields.find("per_layer_config")) read_listed_sizes(*list, where, config);
  fields.update_count({"num_kv_shared_layers"}, config.num_kv_shared_layers);
  require<ConfigError>(config.num_kv_shared_layers < std::max<std::size_t>(1, config.num_hidden_layers),
                       "{}: num_kv_shared_layers must be less than num_hidden_layers, {}, found {}; check "
                       "config.json",
                       where, config.num_hidden_layers, config.num_kv_shared_layers);
  fields.update({"use_double_wide_mlp"}, config.use_double_wide_mlp);
  if (fields.is_null("hidden_size_per_layer_input")) config.layer_input.hidden_size = 0;
  fields.update_count({"hidden_size_per_layer_input"}, config.layer_input.hidden_size);
  fields.update_count({"vocab_size_per_layer_input"}, config.layer_input.vocab_size);
  fields.update({"enable_moe_block"}, config.enable_moe_block);
  read_mlps_of_layers(fields, where, config);
  read_hyper_connections(fields, where, config);
  if (config.low_rank_connection.count != 0)
    read_numbers(kLowRankConnectionNumbers, fields, config.low_rank_connection);
  read_hash_tables(fields, where, config);
  read_engram(fields, where, config);
  read_attention_residuals(fields, where, config);
  read_gating(fields, config);
  read_heads_of_layers(fields, where, config);
}

}  // namespace tp
