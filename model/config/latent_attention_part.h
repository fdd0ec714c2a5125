// Latent attention and indexers: their tensors, and their fields in config.json.
#pragma once

#include "model/config/part_table.h"

#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace tp {

struct CheckpointConfig;

struct IndexerNames {
  std::string q_b_proj;
  std::string k_proj;
  std::string k_norm;
  std::string weights_proj;
  // Tensors, not layers, of indexers that pool keys: the projection to gates, and addends of gates.
  std::string pool_gate{};
  std::string pool_addends{};
};

struct LatentAttentionNames {
  std::string q_proj;  // if there is no q_lora_rank
  std::string q_a_proj;
  std::string q_a_norm;
  std::string q_b_proj;
  std::string kv_a_proj;
  std::string kv_a_norm;
  std::string kv_b_proj;
  std::string o_proj;
  std::string gate{};   // gates of heads or of elements
  std::string sinks{};  // a tensor, not a layer
  IndexerNames indexer{};
};

inline constexpr std::array kIndexerTensors = std::to_array<PartTensor<IndexerNames>>({
    {&IndexerNames::q_b_proj, "wq_b", "indexer.attn_q_b"},
    {&IndexerNames::k_proj, "wk", "indexer.attn_k"},
    {&IndexerNames::k_norm, "k_norm", "indexer.k_norm", nullptr, false},
    {&IndexerNames::weights_proj, "weights_proj", "indexer.proj"},
    {&IndexerNames::pool_gate, "", "indexer_compressor_gate.weight"},
    {&IndexerNames::pool_addends, "", "indexer_compressor_ape.weight", nullptr, false},
});

// In GGUF files, q_proj and o_proj are those of a block's attention.
inline constexpr std::array kLatentAttentionTensors = std::to_array<PartTensor<LatentAttentionNames>>({
    {&LatentAttentionNames::q_proj, "q_proj"},
    {&LatentAttentionNames::q_a_proj, "q_a_proj", "attn_q_a"},
    {&LatentAttentionNames::q_a_norm, "q_a_layernorm", "attn_q_a_norm", nullptr, false},
    {&LatentAttentionNames::q_b_proj, "q_b_proj", "attn_q_b"},
    {&LatentAttentionNames::kv_a_proj, "kv_a_proj_with_mqa", "attn_kv_a_mqa"},
    {&LatentAttentionNames::kv_a_norm, "kv_a_layernorm", "attn_kv_a_norm", nullptr, false},
    {&LatentAttentionNames::kv_b_proj, "kv_b_proj", "attn_kv_b"},
    {&LatentAttentionNames::o_proj, "o_proj"},
    {&LatentAttentionNames::gate, "", "attn_gate"},
    {&LatentAttentionNames::sinks, "", "attn_sinks.weight"},
});

// An indexer of grouped-query attention, which chooses blocks of positions.
struct BlockIndexerNames {
  std::string q_proj;
  std::string k_proj;
  std::string q_norm;
  std::string k_norm;
};

inline constexpr std::array kBlockIndexerTensors = std::to_array<PartTensor<BlockIndexerNames>>({
    {&BlockIndexerNames::q_proj, "index_q_proj", "indexer.q_proj", nullptr, false},
    {&BlockIndexerNames::k_proj, "index_k_proj", "indexer.k_proj", nullptr, false},
    {&BlockIndexerNames::q_norm, "index_q_norm", "indexer.q_norm", gguf_norm, false},
    {&BlockIndexerNames::k_norm, "index_k_norm", "indexer.k_norm", gguf_norm, false},
});

// An indexer of grouped-query attention, which chooses pools of positions. Queries of all heads and the key
// are rows of one tensor in checkpoints.
struct PooledIndexerNames {
  std::string qk_proj;
  std::string q_proj;
  std::string k_proj;
  std::string q_norm;
  std::string k_norm;
};

// Queries of all heads and the key, which are separate in GGUF files.
GgufPlace queries_and_key(const GgufContext& context);

inline constexpr std::array kPooledIndexerTensors = std::to_array<PartTensor<PooledIndexerNames>>({
    {&PooledIndexerNames::qk_proj, "index_qk_proj", "indexer.q_proj", queries_and_key, false},
    {&PooledIndexerNames::q_proj, "index_q_proj", "indexer.q_proj", nullptr, false},
    {&PooledIndexerNames::k_proj, "index_k_proj", "indexer.k_proj", nullptr, false},
    {&PooledIndexerNames::q_norm, "q_layernorm", "indexer.q_norm", gguf_norm, false},
    {&PooledIndexerNames::k_norm, "k_layernorm", "indexer.k_norm", gguf_norm, false},
});

struct LatentAttentionConfig {
  std::size_t q_lora_rank = 0;  // 0: none
  std::size_t kv_lora_rank = 0;
  std::size_t qk_nope_head_dim = 0;
  std::size_t qk_rope_head_dim = 0;
  std::size_t v_head_dim = 0;
  bool rope_interleave = true;

  bool operator==(const LatentAttentionConfig&) const = default;
};

// Indexers choose the positions that latent attention reads.
struct IndexerConfig {
  std::size_t topk = 0;  // 0: no indexers
  std::size_t n_heads = 0;
  std::size_t head_dim = 0;
  bool rope_interleave = false;
  std::size_t pool = 1;       // positions that are chosen together; 1: the family has no pools
  std::size_t topk_freq = 1;  // without `types`: the distance between layers with an indexer
  // [layers] or empty (all "full"): "shared" layers use the choice of the last "full" layer.
  std::vector<std::string> types{};

  bool operator==(const IndexerConfig&) const = default;
};

inline constexpr std::array kIndexerNumbers = std::to_array<PartNumber<IndexerConfig>>({
    {&IndexerConfig::n_heads, {"index_n_heads"}, "attention.indexer.head_count"},
    {&IndexerConfig::head_dim, {"index_head_dim"}, "attention.indexer.key_length"},
    {&IndexerConfig::topk, {"index_topk"}, "attention.indexer.top_k"},
});

// Indexers choose the blocks of positions that the heads of a KV head read.
struct BlockIndexerConfig {
  std::size_t n_heads = 0;  // 0: no such indexers
  std::size_t head_dim = 0;
  std::size_t block_size = 0;    // positions
  std::size_t topk_blocks = 0;   // blocks that a token reads
  std::size_t local_blocks = 0;  // the token's block and blocks before it, which it always reads
  std::vector<bool> layers{};    // [layers] or empty (none): whether the layer has an indexer

  bool operator==(const BlockIndexerConfig&) const = default;
};

// config.json has them in sparse_attention_config, or, if transformers 5 has written it, outside.
inline constexpr std::array kBlockIndexerNumbers = std::to_array<PartNumber<BlockIndexerConfig>>({
    {&BlockIndexerConfig::n_heads,
     {"sparse_num_index_heads", "index_n_heads"},
     "attention.indexer.head_count"},
    {&BlockIndexerConfig::head_dim, {"sparse_index_dim", "index_head_dim"}, "attention.indexer.key_length"},
    {&BlockIndexerConfig::block_size,
     {"sparse_block_size", "index_block_size"},
     "attention.indexer.block_size"},
    {&BlockIndexerConfig::topk_blocks,
     {"sparse_topk_blocks", "index_topk_blocks"},
     "attention.indexer.top_k"},
    {&BlockIndexerConfig::local_blocks,
     {"sparse_local_block", "index_local_blocks"},
     "attention.indexer.local_blocks"},
});

// Indexers choose pools of positions that all heads read.
struct PooledIndexerConfig {
  std::size_t n_heads = 0;  // 0: no such indexers
  std::size_t head_dim = 0;
  std::size_t budget = 0;          // positions
  std::size_t compress_ratio = 0;  // positions of a pool

  bool operator==(const PooledIndexerConfig&) const = default;
};

// GGUF files have a list of compression ratios, with 0 for layers without an indexer.
inline constexpr std::array kPooledIndexerNumbers = std::to_array<PartNumber<PooledIndexerConfig>>({
    {&PooledIndexerConfig::n_heads, {"indexer_n_heads"}, "attention.indexer.head_count"},
    {&PooledIndexerConfig::head_dim, {"indexer_head_dim"}, "attention.indexer.key_length"},
    {&PooledIndexerConfig::budget, {"indexer_budget"}, "attention.indexer.top_k"},
    {&PooledIndexerConfig::compress_ratio, {"indexer_compress_ratio"}},
});

// Reads the fields of latent attention, if the model has it. Sizes must be read already. Throws
// CheckpointError.
void read_latent_attention(const JsonNode& fields, CheckpointConfig& config);

// Reads the fields of indexers. Latent attention and num_hidden_layers must be read already. Throws
// ConfigError; `where` names the file.
void read_indexer(const JsonNode& fields, const std::string& where, CheckpointConfig& config);

// Reads the fields of indexers of blocks. Heads, RoPE and num_hidden_layers must be read already. Throws
// CheckpointError and ConfigError; `where` names the file.
void read_block_indexer(const JsonNode& fields, const std::string& where, CheckpointConfig& config);

// Reads the fields of indexers of pools. Heads and RoPE must be read already. Throws CheckpointError and
// ConfigError; `where` names the file.
void read_pooled_indexer(const JsonNode& fields, const std::string& where, CheckpointConfig& config);

}  // namespace tp
