// Compressed attention: its tensors, and its fields in config.json.
#pragma once

#include "model/config/part_table.h"

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace tp {

struct CheckpointConfig;

// The layers that make one vector of each pool of positions.
struct CompressorNames {
  std::string key_proj;
  std::string gate_proj;
  std::string addends;  // a tensor, not a layer
  std::string norm;
};

struct CompressedAttentionNames {
  std::string q_a_proj;
  std::string q_a_norm;
  std::string q_b_proj;
  std::string kv_proj;
  std::string kv_norm;
  std::string o_a_proj;  // a matrix for each group of heads, one below the other
  std::string o_b_proj;
  std::string sinks;  // a tensor, not a layer
  std::string index_q_b_proj;
  std::string index_weights_proj;
  // Projections of pools' latents, instead of index_compressor.
  std::string index_k_proj{};
  std::string index_k_norm{};
  CompressorNames compressor{};
  CompressorNames index_compressor{};
};

// Some GGUF files store o_a_proj as a stack.
inline constexpr std::array kCompressedAttentionTensors =
    std::to_array<PartTensor<CompressedAttentionNames>>({
        {&CompressedAttentionNames::q_a_proj, "wq_a", "attn_q_a"},
        {&CompressedAttentionNames::q_a_norm, "q_norm", "attn_q_a_norm", nullptr, false},
        {&CompressedAttentionNames::q_b_proj, "wq_b", "attn_q_b"},
        {&CompressedAttentionNames::kv_proj, "wkv", "attn_kv"},
        {&CompressedAttentionNames::kv_norm, "kv_norm", "attn_kv_a_norm", nullptr, false},
        {&CompressedAttentionNames::o_a_proj, "wo_a", "attn_output_a", gguf_matrix_or_stack},
        {&CompressedAttentionNames::o_b_proj, "wo_b", "attn_output_b"},
        {&CompressedAttentionNames::sinks, "attn_sink", "attn_sinks.weight"},
        {&CompressedAttentionNames::index_q_b_proj, "indexer.wq_b", "indexer.attn_q_b"},
        {&CompressedAttentionNames::index_weights_proj, "indexer.weights_proj", "indexer.proj"},
        {&CompressedAttentionNames::index_k_proj, "indexer.wk", "indexer.attn_k"},
        {&CompressedAttentionNames::index_k_norm, "indexer.k_norm", "indexer.k_norm", nullptr, false},
    });

inline constexpr std::array kCompressorTensors = std::to_array<PartTensor<CompressorNames>>({
    {&CompressorNames::key_proj, "wkv", "attn_compressor_kv"},
    {&CompressorNames::gate_proj, "wgate", "attn_compressor_gate"},
    {&CompressorNames::addends, "ape", "attn_compressor_ape.weight", nullptr, false},
    {&CompressorNames::norm, "norm", "attn_compressor_norm", nullptr, false},
});

inline constexpr std::array kIndexCompressorTensors = std::to_array<PartTensor<CompressorNames>>({
    {&CompressorNames::key_proj, "wkv", "indexer_compressor_kv"},
    {&CompressorNames::gate_proj, "wgate", "indexer_compressor_gate"},
    {&CompressorNames::addends, "ape", "indexer_compressor_ape.weight", nullptr, false},
    {&CompressorNames::norm, "norm", "indexer_compressor_norm", nullptr, false},
});

struct CompressedAttentionConfig {
  std::size_t q_lora_rank = 0;  // 0: the family has no compressed attention
  std::size_t head_dim = 0;     // including the rotated elements
  std::size_t o_groups = 0;
  std::size_t o_lora_rank = 0;
  double rope_theta = 160000.0;  // in layers with pools
  // [layers] positions of a pool; 0: the layer has a window only.
  std::vector<std::size_t> ratios{};
  // Whether only some layers make pools, and only some choose, for the layers up to the next such layer.
  bool has_sources = false;
  std::vector<std::size_t> pool_sources{};   // layers that make pools, ascending
  std::vector<std::size_t> index_sources{};  // layers that choose, ascending
  std::size_t candidate_source = 0;          // the layer that chooses candidates for the later ones
  std::size_t candidate_block_size = 8;      // pools
  std::size_t candidate_blocks = 2048;

  // Whether the layer's indexer chooses candidates, or chooses among them.
  bool has_candidates(std::size_t layer) const { return has_sources && layer >= candidate_source; }
  bool operator==(const CompressedAttentionConfig&) const = default;
};

inline constexpr std::array kCompressedAttentionNumbers =
    std::to_array<PartNumber<CompressedAttentionConfig>>({
        {&CompressedAttentionConfig::q_lora_rank, {"q_lora_rank"}, "attention.q_lora_rank"},
        {&CompressedAttentionConfig::head_dim, {"head_dim"}, "attention.key_length"},
        {&CompressedAttentionConfig::o_groups, {"o_groups"}, "attention.output_group_count"},
        {&CompressedAttentionConfig::o_lora_rank, {"o_lora_rank"}, "attention.output_lora_rank"},
        {&CompressedAttentionConfig::candidate_block_size, {"candidate_block_size"}},
        {&CompressedAttentionConfig::candidate_blocks, {"candidate_topk_blocks"}},
    });

// The earlier layer whose pools the layer reads; nullopt if it makes its own. The layer has pools.
std::optional<std::size_t> pool_source_of(const CompressedAttentionConfig& config, std::size_t layer);
// The layer whose choice the layer uses, which may be the layer itself. The layer has pools.
std::size_t index_source_of(const CompressedAttentionConfig& config, std::size_t layer);

// Reads the fields of compressed attention. Heads, RoPE, windows, indexers and experts must be read already.
// Throws CheckpointError and ConfigError; `where` names the file.
void read_compressed_attention(const JsonNode& fields, const std::string& where, CheckpointConfig& config);

}  // namespace tp
