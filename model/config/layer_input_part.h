// Inputs per layer and hash tables: their tensors, and their sizes in config.json. The tensors of
// self-conditioning, an input of the first layer.
#pragma once

#include "model/config/part_table.h"
#include "tp/token_id.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tp {

struct LayerInputNames {
  std::string gate;
  std::string projection;
  std::string norm;
};

// Tensors that compute the inputs of all layers.
struct PerLayerInputNames {
  std::string embed_tokens;
  std::string projection;
  std::string norm;
};

// Tensors that add soft embeddings to a canvas's token vectors.
struct SelfConditioningNames {
  std::string norm;
  std::string gate_proj;
  std::string up_proj;
  std::string down_proj;
};

inline constexpr std::array kLayerInputTensors = std::to_array<PartTensor<LayerInputNames>>({
    {&LayerInputNames::gate, "per_layer_input_gate", "inp_gate"},
    {&LayerInputNames::projection, "per_layer_projection", "proj"},
    {&LayerInputNames::norm, "post_per_layer_input_norm", "post_norm", nullptr, false},
});

inline constexpr std::array kPerLayerInputTensors = std::to_array<PartTensor<PerLayerInputNames>>({
    {&PerLayerInputNames::embed_tokens, "embed_tokens_per_layer", "per_layer_token_embd"},
    {&PerLayerInputNames::projection, "per_layer_model_projection", "per_layer_model_proj"},
    {&PerLayerInputNames::norm, "per_layer_projection_norm", "per_layer_proj_norm"},
});

inline constexpr std::array kSelfConditioningTensors = std::to_array<PartTensor<SelfConditioningNames>>({
    {&SelfConditioningNames::norm, "pre_norm"},
    {&SelfConditioningNames::gate_proj, "gate_proj"},
    {&SelfConditioningNames::up_proj, "up_proj"},
    {&SelfConditioningNames::down_proj, "down_proj"},
});

// A hash table before attention (HashTableSpec). Empty names are absent.
struct HashTableNames {
  std::string table{};       // one tensor, or
  std::string shards{};      // tensors with equal numbers of rows: followed by the shard's number
  std::string only_table{};  // GGUF files have one table, outside of the blocks
  std::string constants{};   // prefix of the hash's constants, which checkpoints contain and GGUF files don't
  std::string key_proj{};
  std::string value_proj{};
  std::string key_value_proj{};  // instead of the two: the rows of keys, then those of the value
  std::string key_norm{};
  std::string query_norm{};
  std::string key_gain{};  // instead of the norms: tensors, [streams, hidden_size], whose names are whole
  std::string query_gain{};
  std::string conv_norm{};
  std::string conv{};
};

inline constexpr std::array kHashTableTensors = std::to_array<PartTensor<HashTableNames>>({
    {&HashTableNames::table},
    {&HashTableNames::shards},
    {&HashTableNames::only_table},
    {&HashTableNames::key_proj, "key_proj", "ple_key"},
    {&HashTableNames::value_proj, "value_proj", "ple_value"},
    {&HashTableNames::key_norm, "norm_key", "ple_norm_key", gguf_norm, false},
    {&HashTableNames::query_norm, "norm_query", "ple_norm_query", gguf_norm, false},
    {&HashTableNames::conv_norm, "norm_conv", "ple_norm_conv", gguf_norm, false},
    {&HashTableNames::conv, "conv1d", "ple_conv1d", nullptr, false},
    {&HashTableNames::key_value_proj},
    {&HashTableNames::key_gain, "", "", nullptr, false},
    {&HashTableNames::query_gain, "", "", nullptr, false},
});

// This part under DeepSeek's names.
inline constexpr std::array kEngramTensors = std::to_array<PartTensor<HashTableNames>>({
    {&HashTableNames::table, "embed", "engram_embd"},
    {&HashTableNames::key_value_proj, "wkv", "engram_wkv"},
    {&HashTableNames::key_gain, "k_weight", "engram_k.weight", nullptr, false},
    {&HashTableNames::query_gain, "q_weight", "engram_q.weight", nullptr, false},
});

// The names in GGUF files that carry a config.json.
inline constexpr std::array kCarriedEngramTensors = std::to_array<PartTensor<HashTableNames>>({
    {&HashTableNames::table, "embed", "engram_embd"},
    {&HashTableNames::key_value_proj, "wkv", "engram_kv"},
    {&HashTableNames::key_gain, "k_weight", "engram_k_norm.weight", nullptr, false},
    {&HashTableNames::query_gain, "q_weight", "engram_q_norm.weight", nullptr, false},
});

struct HashTableConfig {
  std::vector<std::size_t> layers{};  // layers with a table; empty: none
  std::size_t embed_dim = 0;          // elements of a token's rows; 0: the family has no tables
  std::size_t conv_kernel = 0;        // 0: no convolution
  std::size_t ngram_size = 0;         // tokens of the longest n-gram
  std::size_t heads_per_ngram = 0;
  std::size_t vocab_size_base = 0;  // the smallest possible number of a head's rows
  std::size_t rows_multiple = 1;    // divides the number of rows of a table
  std::size_t shards = 1;
  std::size_t seed = 0;
  // Constants of all tables' hashes, one table after the other, if the file has them. Otherwise they follow
  // from the other fields.
  std::vector<std::uint64_t> multipliers{};
  std::vector<std::uint64_t> sizes{};
  std::optional<std::size_t> boundary{};  // empty: the first eos_token_id
  // DeepSeek's tables, which are looked up by folded ids.
  std::size_t folded_vocab_size = 0;  // number of folded ids; 0: ids are not folded
  std::size_t row_size = 0;
  std::vector<std::size_t> rows{};   // [layers] or empty: rows of each table
  std::vector<TokenId> token_map{};  // the folded id of each token; empty: there is no tokenizer

  bool operator==(const HashTableConfig&) const = default;
};

inline constexpr std::array kHashTableNumbers = std::to_array<PartNumber<HashTableConfig>>({
    {&HashTableConfig::embed_dim, {"ple_embed_dim"}},
    {&HashTableConfig::conv_kernel, {"ple_conv_kernel_size"}, "ple.conv_kernel"},
    {&HashTableConfig::ngram_size, {"ngram_size"}, "ple.ngram_size"},
    {&HashTableConfig::heads_per_ngram, {"heads_per_ngram"}, "ple.heads_per_ngram"},
    {&HashTableConfig::vocab_size_base, {"ngram_vocab_size_base"}},
    {&HashTableConfig::rows_multiple, {"make_ngram_vocab_size_divisible_by"}},
    {&HashTableConfig::shards, {"split_ngram_parts"}},
});

inline constexpr std::array kEngramNumbers = std::to_array<PartNumber<HashTableConfig>>({
    {&HashTableConfig::ngram_size, {"engram_max_ngram_size"}},
    {&HashTableConfig::heads_per_ngram, {"engram_n_heads"}},
    {&HashTableConfig::row_size, {"engram_head_dim"}},
    {&HashTableConfig::vocab_size_base, {"engram_vocab_size"}},
    {&HashTableConfig::folded_vocab_size, {"engram_compressed_vocab_size"}},
});

// The field of config.json that holds HashTableConfig::token_map. load_config adds it.
inline constexpr const char* kTokenMap = "engram_token_map";

struct LayerInputConfig {
  std::size_t hidden_size = 0;  // 0: no inputs per layer
  std::size_t vocab_size = 0;

  bool operator==(const LayerInputConfig&) const = default;
};

}  // namespace tp
