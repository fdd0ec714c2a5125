// Latent attention and its indexers: their tensors, and their fields in config.json.
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
  std::string gate{};  // gates of heads
  IndexerNames indexer{};
};

inline constexpr std::array kIndexerTensors = std::to_array<PartTensor<IndexerNames>>({
    {&IndexerNames::q_b_proj, "wq_b", "indexer.attn_q_b"},
    {&IndexerNames::k_proj, "wk", "indexer.attn_k"},
    {&IndexerNames::k_norm, "k_norm", "indexer.k_norm", nullptr, false},
    {&IndexerNames::weights_proj, "weights_proj", "indexer.proj"},
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
  // [layers] or empty (all "full"): "shared" layers use the choice of the last "full" layer.
  std::vector<std::string> types{};

  bool operator==(const IndexerConfig&) const = default;
};

inline constexpr std::array kIndexerNumbers = std::to_array<PartNumber<IndexerConfig>>({
    {&IndexerConfig::n_heads, {"index_n_heads"}, "attention.indexer.head_count"},
    {&IndexerConfig::head_dim, {"index_head_dim"}, "attention.indexer.key_length"},
    {&IndexerConfig::topk, {"index_topk"}, "attention.indexer.top_k"},
});

// Reads the fields of latent attention, if the model has it. Sizes must be read already. Throws
// CheckpointError.
void read_latent_attention(const JsonNode& fields, CheckpointConfig& config);

// Reads the fields of indexers. Latent attention and num_hidden_layers must be read already. Throws
// ConfigError; `where` names the file.
void read_indexer(const JsonNode& fields, const std::string& where, CheckpointConfig& config);

}  // namespace tp
